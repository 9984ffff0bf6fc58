"""`brokerwire completion SHELL`: completion for bash, zsh and fish, made from the parsers."""

from __future__ import annotations

__all__ = ["add_parser", "script"]

import argparse
from typing import TYPE_CHECKING, NamedTuple

from exporter.commands.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.commands.arguments import Commands, Parser

SHELLS = ("bash", "zsh", "fish")
_PATHS = ("FILE", "DIR")

EPILOG = """\
examples:
  source <(brokerwire completion bash)                       in ~/.bashrc
  brokerwire completion zsh > "${fpath[1]}/_brokerwire"      before compinit
  brokerwire completion fish > ~/.config/fish/completions/brokerwire.fish"""


class _Option(NamedTuple):
    """A flag; `values` are those it can have, None where it takes none."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...] | None
    takes_path: bool


class _Command(NamedTuple):
    """A command by its words: `rules render`; the program itself has none."""

    words: str
    commands: tuple[tuple[str, str], ...]
    options: tuple[_Option, ...]
    takes_path: bool
    choices: tuple[str, ...]


def add_parser(commands: Commands, root: Parser) -> None:
    """Add `completion`, for all commands of the root parser."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands and flags",
        description="Print a completion script for bash, zsh or fish.",
        epilog=EPILOG,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")

    def execute(options: argparse.Namespace) -> int:
        say(script(root, options.shell))
        return 0

    parser.set_defaults(execute=execute)


def script(root: Parser, shell: str) -> str:
    """Return the completion script of a shell for all commands of a parser."""
    commands = tuple(_commands(root, ""))
    if shell == "fish":
        return _fish(commands)
    return _bash(commands) if shell == "bash" else _zsh(commands)


def _commands(parser: argparse.ArgumentParser, words: str) -> Iterator[_Command]:
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no public way to list what was added
    flags = [each for each in parser._actions if each.option_strings]  # noqa: SLF001 - as above
    places = [each for each in parser._actions if not each.option_strings and each not in inner]  # noqa: SLF001 - as above
    yield _Command(
        words,
        tuple(
            (choice.dest, choice.help or "")
            for each in inner
            for choice in each._choices_actions  # noqa: SLF001 - as above
        ),
        tuple(_option(each) for each in flags),
        any(each.metavar in _PATHS for each in places),
        tuple(str(choice) for each in places for choice in each.choices or ()),
    )
    for each in inner:
        for name, below in each.choices.items():
            yield from _commands(below, f"{words} {name}".strip())


def _option(action: argparse.Action) -> _Option:
    takes = action.nargs != 0
    return _Option(
        tuple(action.option_strings),
        action.help or "",
        tuple(str(choice) for choice in action.choices or ()) if takes else None,
        takes and action.metavar in _PATHS,
    )


def _words(command: _Command) -> str:
    names = [name for name, _ in command.commands]
    names += [name for option in command.options for name in option.names]
    return " ".join([*names, *command.choices])


def _cases(commands: tuple[_Command, ...], path: str, some: str) -> Iterator[str]:
    """Give the patterns that bash and zsh share: the values of a flag, then words and flags."""
    for command in commands:
        for option in command.options:
            if option.values is None:
                continue
            pattern = "|".join(f"'{command.words}:{name}'" for name in option.names)
            does = path if option.takes_path else some % " ".join(option.values)
            yield f"    {pattern}) {does};;"
    for command in commands:
        does = some % _words(command)
        if command.takes_path:
            does += f"; {path}"
        yield f"    '{command.words}:'*) {does};;"


def _steps(commands: tuple[_Command, ...]) -> str:
    return "|".join(f"'{command.words}'" for command in commands if command.words)


def _bash(commands: tuple[_Command, ...]) -> str:
    cases = _cases(
        commands,
        path='compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current"))',
        some="COMPREPLY=($(compgen -W '%s' -- \"$current\"))",
    )
    return "\n".join(
        [
            "_brokerwire() {",
            '  local at= word current="${COMP_WORDS[COMP_CWORD]}"',
            '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            f'    case "${{at:+$at }}$word" in {_steps(commands)}) at="${{at:+$at }}$word";; esac',
            "  done",
            "  COMPREPLY=()",
            '  case "$at:${COMP_WORDS[COMP_CWORD-1]}" in',
            *cases,
            "  esac",
            "}",
            "complete -F _brokerwire brokerwire",
            "",
        ]
    )


def _zsh(commands: tuple[_Command, ...]) -> str:
    return "\n".join(
        [
            "#compdef brokerwire",
            "_brokerwire() {",
            "  local at= word",
            "  for word in ${words[2,CURRENT-1]}; do",
            f'    case "${{at:+$at }}$word" in {_steps(commands)}) at="${{at:+$at }}$word";; esac',
            "  done",
            '  case "$at:${words[CURRENT-1]}" in',
            *_cases(commands, path="_files", some="compadd -- %s"),
            "  esac",
            "}",
            # Loaded from fpath it is called at once; sourced, it registers itself.
            'if [ "${funcstack[1]}" = _brokerwire ]; then _brokerwire "$@"',
            "else compdef _brokerwire brokerwire; fi",
            "",
        ]
    )


def _fish(commands: tuple[_Command, ...]) -> str:
    known = " ".join(f"'{command.words}'" for command in commands if command.words)
    lines = [
        "function __brokerwire_at",
        "  set -l at ''",
        "  for word in (commandline -opc)[2..-1]",
        '    set -l next (string trim -- "$at $word")',
        f'    contains -- "$next" {known}; and set at $next',
        "  end",
        '  test "$at" = "$argv[1]"',
        "end",
        "complete -c brokerwire -f",
    ]
    for command in commands:
        start = f"complete -c brokerwire -n \"__brokerwire_at '{command.words}'\""
        lines += [f"{start} -a {name} -d {_quoted(text)}" for name, text in command.commands]
        if command.choices:
            lines.append(f"{start} -a '{' '.join(command.choices)}'")
        if command.takes_path:
            lines.append(f"{start} -F")
        lines += [f"{start} {_fish_option(option)}" for option in command.options]
    return "\n".join([*lines, ""])


def _fish_option(option: _Option) -> str:
    parts = [
        f"-l {name.removeprefix('--')}" if name.startswith("--") else f"-s {name[1:]}"
        for name in option.names
    ]
    if option.values is not None:
        parts.append("-r -F" if option.takes_path else "-x")
    if option.values:
        parts.append(f"-a '{' '.join(option.values)}'")
    return " ".join([*parts, f"-d {_quoted(option.help)}"])


def _quoted(text: str) -> str:
    escaped = text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
