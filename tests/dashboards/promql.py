"""What an expression of PromQL asks for: its selectors, and the labels that it groups by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import promql_parser

if TYPE_CHECKING:
    from collections.abc import Iterator


def nodes_of(expression: str) -> list:
    return list(_walk(promql_parser.parse(expression)))


def _walk(node) -> Iterator:
    yield node
    for name in ("expr", "lhs", "rhs", "param", "vector_selector"):
        child = getattr(node, name, None)
        if child is not None:
            yield from _walk(child)
    for child in getattr(node, "args", None) or ():
        yield from _walk(child)


def selectors_of(expression: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every metric with its matchers."""
    return [
        (node.name, [(each.name, each.value) for each in node.matchers.matchers])
        for node in nodes_of(expression)
        if isinstance(node, promql_parser.VectorSelector)
    ]


def grouping_labels_of(expression: str) -> set[str]:
    """The labels of `by`, `without`, `on`, `ignoring`, `group_left` and `group_right`."""
    labels: set[str] = set()
    for node in nodes_of(expression):
        modifier = getattr(node, "modifier", None)
        if isinstance(node, promql_parser.AggregateExpr) and modifier is not None:
            labels |= set(modifier.labels)
        if isinstance(node, promql_parser.BinaryExpr) and modifier is not None:
            if modifier.matching is not None:
                labels |= set(modifier.matching.labels)
            labels |= set(modifier.group_labels or ())
    return labels


def labels_made_by(expression: str) -> set[str]:
    """The labels that `label_replace` adds."""
    return {
        node.args[1].val
        for node in nodes_of(expression)
        if isinstance(node, promql_parser.Call) and node.func.name == "label_replace"
    }
