"""Flags that several commands share, and how they change the settings."""

from __future__ import annotations

__all__ = [
    "Commands",
    "Parser",
    "add_config_flags",
    "add_look_flags",
    "add_output_flags",
    "duration",
    "settings_of",
]

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from exporter.config.files import read_settings
from exporter.config.journal import JOURNAL_LABELS
from exporter.config.settings import PortRange, Settings
from exporter.config.values import kind_of
from exporter.errors import UsageError

if TYPE_CHECKING:
    from exporter.config.settings import JournalSettings
    from exporter.config.values import Kind

Commands = Any  # argparse keeps the type of its subparsers to itself


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are UsageErrors, one line like any other error."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        # An abbreviation that works today is ambiguous once a flag is added.
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise instead of writing a usage screen.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}; see `{self.prog} --help`")


def _value(kind: Kind | None, text: str) -> Any:
    if kind is None:
        raise AssertionError("no way is known to write this flag")
    try:
        return kind.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {kind.words}, not {text!r}") from None


def duration(text: str) -> float:
    """Read a flag such as `--for 3s`."""
    seconds: float = _value(kind_of(float), text)
    return seconds


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in JOURNAL_LABELS:
        raise argparse.ArgumentTypeError(
            f"must be NAME=VALUE, NAME one of {', '.join(JOURNAL_LABELS)}, not {text!r}"
        )
    return name, _value(kind_of(str), value)


def _ports(text: str) -> PortRange:
    ports: PortRange = _value(kind_of(PortRange), text)
    return ports


def add_config_flags(parser: Parser) -> None:
    """Add what `run` and `config show` understand."""
    parser.add_argument("--config", metavar="FILE", help="configuration file (YAML)")
    _add_ports(parser)
    parser.add_argument(
        "--web.listen-address",
        dest="listen_addresses",
        metavar="ADDRESS",
        action="append",
        help="address to listen on, as host:port or :port; may be given several times",
    )
    parser.add_argument(
        "--web.config.file",
        dest="web_config_file",
        metavar="FILE",
        help="TLS and users, in the form of the Prometheus exporter-toolkit",
    )
    parser.add_argument("--web.telemetry-path", dest="telemetry_path", metavar="PATH")
    parser.add_argument(
        "--journal.label",
        dest="journal_labels",
        type=_label,
        metavar="NAME=VALUE",
        action="append",
        help="where this is, for the journal's records; may be given several times",
    )
    parser.add_argument("--journal.agent-id", dest="agent_id", metavar="ID")
    parser.add_argument("--log.level", dest="log_level", choices=("debug", "info", "warn", "error"))
    parser.add_argument("--log.format", dest="log_format", choices=("logfmt", "json"))


def add_look_flags(parser: Parser) -> None:
    """Add what the commands understand that look at connections once."""
    parser.add_argument("--config", metavar="FILE", help="configuration file (YAML)")
    _add_ports(parser)
    parser.add_argument("--pid", type=int, metavar="PID", help="only this process")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=duration,
        default=3.0,
        metavar="TIME",
        help="how long to look before answering (default 3s)",
    )
    parser.add_argument(
        "--agent",
        metavar="URL",
        help="ask a running agent (http://127.0.0.1:10920) in place of looking",
    )
    parser.add_argument(
        "--from",
        dest="file",
        metavar="FILE",
        help="read a file of `brokerwire bundle` in place of looking",
    )


def add_output_flags(parser: Parser, *, document: str) -> None:
    """Add `--output`, and `--json` for short."""
    parser.add_argument(
        "--output",
        choices=("table", "json", "tsv"),
        default="table",
        help=f"table for people (default), json ({document}), or tsv: one line each, for scripts",
    )
    parser.add_argument(
        "--json", dest="output", action="store_const", const="json", help="same as --output json"
    )


def _add_ports(parser: Parser) -> None:
    parser.add_argument(
        "--ports",
        type=_ports,
        action="append",
        metavar="PORTS",
        help="the brokers' ports, such as 9092 or 9092-9098; may be given several times",
    )


def settings_of(options: argparse.Namespace) -> Settings:
    """Return what is in force: defaults, then the file, then flags.

    Raises:
        ConfigError: the file is not good.
        UsageError: a flag's value breaks a rule.
    """
    settings = Settings() if options.config is None else read_settings(options.config)
    given = vars(options)
    web = {
        "listen_addresses": tuple(given.get("listen_addresses") or ()) or None,
        "config_file": given.get("web_config_file"),
        "telemetry_path": given.get("telemetry_path"),
    }
    log = {"level": given.get("log_level"), "format": given.get("log_format")}
    ports = {"ports": tuple(given.get("ports") or ()) or None}
    try:
        return replace(
            settings,
            brokers=_changed(settings.brokers, ports),
            web=_changed(settings.web, web),
            log=_changed(settings.log, log),
            journal=_journal(settings.journal, given),
        )
    except ValueError as error:
        raise UsageError(str(error).replace("`", "")) from error


def _journal(journal: JournalSettings | None, given: dict[str, Any]) -> JournalSettings | None:
    labels, agent_id = given.get("journal_labels"), given.get("agent_id")
    if journal is None:
        if labels or agent_id:
            raise UsageError("--journal flags need a section journal in the configuration file")
        return None
    return replace(
        journal,
        labels=journal.labels | dict(labels or ()),
        agent_id=agent_id or journal.agent_id,
    )


def _changed(section: Any, values: dict[str, Any]) -> Any:
    return replace(section, **{key: value for key, value in values.items() if value is not None})
