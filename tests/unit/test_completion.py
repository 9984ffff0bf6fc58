"""Completion in the shells themselves: what they offer is what the parsers know."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from exporter.cli import main, parser
from exporter.commands.completion import SHELLS, script

CASES = [
    ("brokerwire ins", {"inspect"}),
    ("brokerwire rules ", {"render", "settings", "--help", "-h"}),
    ("brokerwire rules render --ch", {"--check"}),
    ("brokerwire inspect --output ", {"table", "json", "tsv"}),
    ("brokerwire run --log.level w", {"warn"}),
    ("brokerwire run --web.telem", {"--web.telemetry-path"}),
    ("brokerwire completion f", {"fish"}),
    ("brokerwire config check brokerwire.y", {"brokerwire.yaml"}),
    ("brokerwire --config brokerwire.y", set()),
    ("brokerwire run --config brokerwire.y", {"brokerwire.yaml"}),
]
# Zsh completes in its line editor only: a compadd and a _files that print stand in for it.
ZSH = """
compdef() {{ }}
compadd() {{ shift; print -l -- $@ }}
_files() {{ print -l -- $(ls) }}
source {script}
words=({words})
CURRENT={number}
_brokerwire
"""
BASH = """
compopt() {{ :; }}
source {script}
COMP_WORDS=({words})
COMP_CWORD=$(({number} - 1))
_brokerwire
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def shell_of(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: run tools/install_test_tools.sh")
    return found


def offered(shell, line, folder):
    """What a shell offers for the last word of a line."""
    program, path = shell_of(shell), folder / "script"
    path.write_text(script(parser(), shell))
    (folder / "brokerwire.yaml").touch()
    if shell == "fish":
        command = f"source {path}; complete -C '{line}'"
    else:
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        text = ZSH if shell == "zsh" else BASH
        command = text.format(script=path, words=quoted, number=len(words))
    options = {"zsh": ["-f"], "bash": ["--norc"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [program, *options, "-c", command],
        cwd=folder, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    last = line.rpartition(" ")[2]
    return {
        name
        for each in done.stdout.splitlines()
        if (name := each.partition("\t")[0]).startswith(last) and name
    }


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_a_shell_offers_what_the_parser_knows(shell, line, expected, tmp_path):
    found = offered(shell, line, tmp_path)
    if shell == "fish":
        # It offers flags only where a word begins with a dash.
        expected = {name for name in expected if line.endswith("--ch") or not name.startswith("-")}
        expected |= {"--web.telemetry-path"} if "--web.telem" in line else set()
    assert found == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_the_script(capsys, shell):
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == script(parser(), shell)
