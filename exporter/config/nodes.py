"""YAML text to nodes that know their line, within bounds: no aliases, no depth, no surprises.

Only nodes are used, never constructed values: `no` stays the text `no`, and nothing a file says
can make an object, expand a merge or take time that its size does not explain.
"""

from __future__ import annotations

__all__ = ["Problems", "compose", "shown"]

from dataclasses import dataclass, field

import yaml

from exporter.errors import ConfigError, ConfigProblem
from exporter.text import printable

# The whole reference configuration has some hundred nodes and a depth of five.
MOST_NODES = 20_000
DEEPEST = 20
# A file with more mistakes than this is no configuration; its author needs no list of them all.
MOST_PROBLEMS = 100
SHOWN_CHARACTERS = 60


@dataclass(slots=True)
class Problems:
    """The mistakes found so far in one file."""

    file: str
    found: list[ConfigProblem] = field(default_factory=list)

    def add(self, line: int | None, key: str, message: str) -> None:
        """Remember one mistake; beyond the limit it is enough to know that there are more."""
        if len(self.found) < MOST_PROBLEMS:
            self.found.append(ConfigProblem(self.file, line, key, message))

    @property
    def are_many(self) -> bool:
        """Whether it is time to stop explaining."""
        return len(self.found) >= MOST_PROBLEMS

    def raise_if_any(self) -> None:
        """Raise ConfigError with all of them, in the order of their lines.

        Raises:
            ConfigError: where at least one mistake was found.
        """
        if self.found:
            raise ConfigError(tuple(sorted(self.found, key=lambda problem: problem.line or 0)))


def shown(text: str) -> str:
    """Return text from the file as it may stand in a message: quoted, on one line, not long."""
    return f"'{printable(text, SHOWN_CHARACTERS)}'"


class _RefusedError(Exception):
    """The file uses something of YAML that a configuration has no use for."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.SafeLoader):
    """PyYAML's composer, made to stop early.

    Aliases let ten lines stand for millions of nodes, and PyYAML composes by recursion, so that
    a file of brackets would end in a RecursionError.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # the stubs lack it
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None) is not None:
            raise _RefusedError(line, "anchors and aliases (& and *) are not supported: repeat it")
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise _RefusedError(line, f"more than {MOST_NODES} values: this is no configuration")
        if self._depth >= DEEPEST:
            raise _RefusedError(line, f"nested more than {DEEPEST} deep: this is no configuration")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def compose(text: str, problems: Problems) -> yaml.Node | None:
    """Return the root of the document; None where it is empty or broken (see `problems`)."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except _RefusedError as refused:
        problems.add(refused.line, "", str(refused))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problems.add(line, "", f"has the control character U+{error.character:04X}: remove it")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        problems.add(line, "", f"is not YAML: {_words(error)}")
    except (ValueError, OverflowError):
        # PyYAML lets these out for an escape such as "\UFFFFFFFF" and for `%YAML 999...9.1`.
        line = loader.line + 1 if loader is not None else 1
        problems.add(line, "", "is not YAML: an escape or a version is out of range")
    finally:
        if loader is not None:
            loader.dispose()
    return None


def _words(error: yaml.MarkedYAMLError) -> str:
    said = ", ".join(part for part in (error.context, error.problem) if part)
    if "cannot start any token" in said and "\\t" in said:
        said += "; indent with spaces, not tabs"
    return printable(said, 200)
