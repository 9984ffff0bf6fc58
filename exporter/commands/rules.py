"""`brokerwire rules render`: alert and recording rules with an operator's own numbers and scope."""

from __future__ import annotations

__all__ = ["add_parser", "read_rule_settings", "rule_settings_from_text"]

from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.commands.output import say, talk
from exporter.config.files import LARGEST_FILE
from exporter.config.nodes import Problems, compose
from exporter.config.reader import read_section
from exporter.config.text import yaml_from_settings
from exporter.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from exporter.alerts.settings import RuleSettings
    from exporter.commands.arguments import Commands

DIFFERENT = 4

EPILOG = """\
examples:
  brokerwire rules render --output rules           alerts.yaml, recording.yaml
  brokerwire rules render --settings shop.yaml --output out   with your settings
  brokerwire rules render --settings shop.yaml --output out --check
  brokerwire rules settings                        all settings, with defaults

exit codes: 0 done, 2 usage or settings, 4 --check found files that differ"""


def add_parser(commands: Commands) -> None:
    """Add `rules` and its two subcommands."""
    parser = commands.add_parser(
        "rules",
        help="write Prometheus rules with your thresholds, labels and scope",
        description="Write Prometheus alert and recording rules with your thresholds and scope.",
        epilog=EPILOG,
    )
    inner = parser.add_subparsers(metavar="render|settings", required=True)
    render = inner.add_parser("render", help="write alerts.yaml and recording.yaml", epilog=EPILOG)
    render.add_argument("--settings", metavar="FILE", help="what to change (YAML)")
    render.add_argument("--output", metavar="DIR", required=True, help="where the files go")
    render.add_argument(
        "--check", action="store_true", help="write nothing; exit code 4 where a file differs"
    )
    render.set_defaults(execute=_render)
    settings = inner.add_parser("settings", help="print all settings with their defaults")
    settings.add_argument("--settings", metavar="FILE", help="what is changed (YAML)")
    settings.set_defaults(execute=_settings)


def _render(options: argparse.Namespace) -> int:
    from exporter.alerts.render import alerts_text, recording_text

    settings = _settings_of(options)
    folder = Path(options.output)
    different = False
    for name, text in (
        ("alerts.yaml", alerts_text(settings)),
        ("recording.yaml", recording_text(settings)),
    ):
        path = folder / name
        try:
            if options.check:
                if not path.exists() or path.read_bytes() != text.encode():
                    different = True
                    talk(f"{path} differs from what would be written")
            else:
                folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode())
        except OSError as error:
            raise UsageError(f"cannot use {str(path)!r}: {error.strerror}") from error
    return DIFFERENT if different else 0


def _settings(options: argparse.Namespace) -> int:
    settings: Any = _settings_of(options)
    say(yaml_from_settings(settings))
    return 0


def _settings_of(options: argparse.Namespace) -> RuleSettings:
    if options.settings is not None:
        return read_rule_settings(options.settings)
    return rule_settings_from_text("", "")


def read_rule_settings(path: str) -> RuleSettings:
    """Return the settings that a file holds.

    Raises:
        ConfigError: with every mistake of the file, or the reason why it cannot be read.
    """
    problems = Problems(path)
    text = ""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            problems.add(None, "", "has more than 1 MiB: these are no settings")
        text = data.decode("utf-8-sig")
    except OSError as error:
        problems.add(None, "", f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        problems.add(None, "", f"must be UTF-8 text: byte {error.start + 1} is not")
    problems.raise_if_any()
    return rule_settings_from_text(text, path)


def rule_settings_from_text(text: str, file: str) -> RuleSettings:
    """Return the settings that a text holds; `file` is what the mistakes are to name.

    Raises:
        ConfigError: with every mistake of the text.
    """
    from exporter.alerts.settings import RuleSettings

    problems = Problems(file)
    root = compose(text, problems)
    problems.raise_if_any()
    settings = RuleSettings() if root is None else read_section(RuleSettings, root, problems)
    problems.raise_if_any()
    if settings is None:
        raise AssertionError("a section was refused and no reason given")
    return settings
