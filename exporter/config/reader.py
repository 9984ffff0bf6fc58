"""Nodes to frozen dataclasses, guided by their type hints; each misfit is one problem.

A rule of a dataclass is a ValueError from its `__post_init__`; where the message begins with a
`key`, the problem is put on that key's line.
"""

from __future__ import annotations

__all__ = ["read_section"]

import re
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin

import yaml

from exporter.config.nodes import Problems, shown
from exporter.config.secrets import may_hold_secret
from exporter.config.values import Kind, hints_of, kind_of, optional_part
from exporter.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_Section = TypeVar("_Section")

_WRONG: Final = object()
"""Stands for a value that has been reported; None is something that a file may say."""

_TAG_PREFIX = "tag:yaml.org,2002:"
_SECTION = "a section of `key: value` lines"
_LIST = "a list, each entry on a line of its own after `- `"
_PLAIN_TAGS = frozenset(
    {"str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq"}
)
LONGEST_KEY = 64


def read_section(section: type[_Section], node: yaml.Node, problems: Problems) -> _Section | None:
    """Return the dataclass that a node describes; None where `problems` got a reason."""
    if _is_null(node):
        return section()
    made = _Reader(problems).section(section, node, "")
    return made if isinstance(made, section) else None


def _hints_of(section: type[Any]) -> dict[str, tuple[Field[Any], Any]]:
    hints = hints_of(section)
    return {field.name: (field, hints[field.name]) for field in fields(section)}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns nodes into values and reports each one that does not fit its type hint."""

    problems: Problems

    def section(self, section: type[Any], node: yaml.Node, path: str) -> Any:
        """Return one dataclass, or `_WRONG`."""
        if not isinstance(node, yaml.MappingNode) or node.tag != _TAG_PREFIX + "map":
            return self._refuse(node, path, _SECTION)
        known = _hints_of(section)
        lines: dict[str, int] = {}
        values: dict[str, Any] = {}
        for key, key_node, value_node in self._items(node, path):
            lines[key] = _line(key_node)
            if key not in known:
                values[key] = self._unknown(key, tuple(known), key_node, path)
            elif not (_is_null(value_node) and _may_be_empty(known[key][1])):
                values[key] = self.value(known[key][1], value_node, _join(path, key))
        missing = [name for name, (field, _) in known.items() if _is_needed(field, lines)]
        for name in missing:
            self.problems.add(_line(node), path, f"needs `{name}`")
        if missing or any(value is _WRONG for value in values.values()):
            return _WRONG
        try:
            return section(**values)
        except ValueError as error:
            return self._rule(str(error), _line(node), path, lines)

    def value(self, hint: Any, node: yaml.Node, path: str) -> Any:
        """Return one value of the type that the hint asks for, or `_WRONG`."""
        kind = kind_of(hint)
        if kind is not None:
            return self._scalar(kind, node, path)
        hint, _ = optional_part(hint)
        if get_origin(hint) is tuple:
            return self._list(get_args(hint)[0], node, path)
        if get_origin(hint) is dict:
            return self._mapping(node, path)
        return self.section(hint, node, path)

    def _scalar(self, kind: Kind, node: yaml.Node, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return self._refuse(node, path, kind.words)
        if node.tag.removeprefix(_TAG_PREFIX) not in kind.tags:
            return self._refuse(node, path, kind.words, _quotes_remedy(kind, node))
        try:
            return kind.parse(node.value)
        except (ValueError, KeyError):
            remedy = "" if node.value.isprintable() else "; remove its control characters"
            return self._refuse(node, path, kind.words, remedy)

    def _list(self, hint: Any, node: yaml.Node, path: str) -> Any:
        if not isinstance(node, yaml.SequenceNode) or node.tag != _TAG_PREFIX + "seq":
            return self._refuse(node, path, _LIST)
        values = [
            self.value(hint, child, f"{path}[{index}]") for index, child in enumerate(node.value)
        ]
        return _WRONG if any(value is _WRONG for value in values) else tuple(values)

    def _mapping(self, node: yaml.Node, path: str) -> Any:
        if not isinstance(node, yaml.MappingNode) or node.tag != _TAG_PREFIX + "map":
            return self._refuse(node, path, _SECTION)
        values = {
            key: self.value(str, value_node, _join(path, key))
            for key, _, value_node in self._items(node, path)
        }
        return _WRONG if any(value is _WRONG for value in values.values()) else values

    def _items(
        self, node: yaml.MappingNode, path: str
    ) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Give each key once; the second of a doubled key is reported and left out."""
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not _is_key(key_node.value):
                self.problems.add(
                    _line(key_node), path, "has a key that is no name: write `key: value`"
                )
                continue
            key = key_node.value
            if key in first_lines:
                message = f"is here twice; the first is on line {first_lines[key]}: keep one"
                self.problems.add(_line(key_node), _join(path, key), message)
                continue
            first_lines[key] = _line(key_node)
            yield key, key_node, value_node

    def _unknown(self, key: str, known: tuple[str, ...], node: yaml.Node, path: str) -> Any:
        """Report a key that no field has; the nearest name is the likeliest remedy."""
        # Only now: it is never needed by an agent that runs.
        import difflib

        near = [] if self.problems.are_many else difflib.get_close_matches(key, known, n=1)
        remedy = f"did you mean '{near[0]}'?" if near else f"known here: {', '.join(known)}"
        self.problems.add(_line(node), _join(path, key), f"is not a known key; {remedy}")
        return _WRONG

    def _refuse(self, node: yaml.Node, path: str, words: str, remedy: str = "") -> Any:
        said = "what is there" if _may_be_secret(path, node) else _said(node)
        self.problems.add(_line(node), path, f"must be {words}, not {said}{remedy}")
        return _WRONG

    def _rule(self, message: str, line: int, path: str, lines: dict[str, int]) -> Any:
        """Report a rule between keys at the key that it names first, else at the section."""
        named = re.match(r"`(\w+)` (.*)", message, re.DOTALL)
        if named is not None and named[1] in lines:
            line, path, message = lines[named[1]], _join(path, named[1]), named[2]
        self.problems.add(line, path, printable(message, 300))
        return _WRONG


def _quotes_remedy(kind: Kind, node: yaml.ScalarNode) -> str:
    if kind.name == "text" and node.value and _is_plain(node):
        return "; put it in quotes"
    return "; remove the quotes" if node.style in {"'", '"'} else ""


def _said(node: yaml.Node) -> str:
    tag = "" if _is_plain(node) else " with a tag"
    if isinstance(node, yaml.MappingNode):
        return f"a section{tag}"
    if isinstance(node, yaml.SequenceNode):
        return f"a list{tag}"
    if not node.value:
        return f"nothing{tag}"
    is_quoted = isinstance(node, yaml.ScalarNode) and node.style in {"'", '"'}
    return f"{'the text ' if is_quoted else ''}{shown(node.value)}{tag}"


def _is_plain(node: yaml.Node) -> bool:
    """Whether the tag is YAML's own guess and not something that the file asks for."""
    return node.tag.removeprefix(_TAG_PREFIX) in _PLAIN_TAGS


def _may_be_secret(path: str, node: yaml.Node) -> bool:
    """Whether a message must not repeat the value: a password, or a URL that holds one."""
    if not isinstance(node, yaml.ScalarNode):
        return False
    return may_hold_secret(path, node.value)


def _is_key(text: str) -> bool:
    return 0 < len(text) <= LONGEST_KEY and text.isprintable()


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _TAG_PREFIX + "null"


def _may_be_empty(hint: Any) -> bool:
    """Sections and lists whose lines are all commented out, and what may be None."""
    inner, optional = optional_part(hint)
    return optional or get_origin(inner) in {tuple, dict} or is_dataclass(inner)


def _is_needed(field: Field[Any], lines: dict[str, int]) -> bool:
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return not has_default and field.name not in lines


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
