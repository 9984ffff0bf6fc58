"""`brokerwire run`: the agent and its web server until SIGTERM or SIGINT."""

from __future__ import annotations

__all__ = ["add_parser", "sender_to"]

import ctypes
import logging
import os
from typing import TYPE_CHECKING

from exporter.commands.arguments import Commands, add_config_flags, settings_of
from exporter.commands.stopping import SECONDS, Deadline, StopSignals
from exporter.config.journal import JOURNAL_LABELS
from exporter.config.values_in_files import read_value
from exporter.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from exporter.alerting.alertmanager import AlertmanagerSink, Looked
    from exporter.alerts.settings import RuleSettings
    from exporter.config.alertmanager import AlertmanagerTarget
    from exporter.config.settings import Settings
    from exporter.journal.journaling import Journaling
    from exporter.journal.sink import JournalSink

log = logging.getLogger("brokerwire")

# An Alertmanager answers with nothing.
LARGEST_ANSWER = 64 * 1024

EPILOG = """\
examples:
  brokerwire run
  brokerwire run --config /etc/brokerwire/brokerwire.yaml
  brokerwire run --web.listen-address 127.0.0.1:10920 --log.format json

It serves /metrics, a page on /, and /api/v1/connections. SIGTERM ends it within
a second, with a journal in Kafka after journal.kafka.flush_timeout at most."""


def add_parser(commands: Commands) -> None:
    """Add `run`."""
    parser = commands.add_parser(
        "run",
        help="watch, and serve metrics, a page and an API",
        description="Watch this host's Kafka clients; serve metrics, a page and an API.",
        epilog=EPILOG,
    )
    add_config_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    from exporter.logs import set_up_logging

    settings = settings_of(options)
    handler = set_up_logging(settings.log)
    with StopSignals() as signals:
        serve = _serve if settings.networks.follow == "own" else _serve_all_networks
        serve(settings, signals)
    handler.close()
    return 0


def _serve(settings: Settings, signals: StopSignals) -> None:
    from exporter.agent import Agent
    from exporter.web.server import WebServer

    rules = _rule_settings(settings)
    journal, journaling = _journal(settings)
    agent = Agent(settings, rules.thresholds, journaling=journaling)
    alerts = _alertmanager_sink(settings, rules, lambda: [({}, agent.snapshot())])
    server = WebServer(
        settings.web,
        agent.snapshot,
        agent.accept_statistics,
        statistics=settings.sources.librdkafka,
        limits=settings.limits,
        runbooks=rules.links.runbooks,
        is_alive=agent.is_healthy,
        readings=[part.readings for part in (alerts, journal) if part is not None],
    )
    # First the address: where it is taken, nothing else is to begin.
    server.start()
    try:
        if journal is not None:
            journal.start()
        agent.start()
        if alerts is not None:
            alerts.start()
        _return_freed_memory()
        if os.geteuid() == 0:
            log.info("runs as root, which it does not need where clients have its own uid")
        log.info("started", extra={"ports": " ".join(map(str, settings.brokers.ports))})
        name = signals.wait()
        log.info("stopping", extra={"signal": name})
    finally:
        with Deadline(SECONDS + (0.0 if journal is None else journal.stop_seconds)):
            if alerts is not None:
                alerts.stop()
            server.stop()
            agent.stop()
            if journal is not None:
                # After the agent, whose last act is its last batch.
                journal.stop()


def _serve_all_networks(settings: Settings, signals: StopSignals) -> None:
    from exporter.network_agents import NetworkAgents
    from exporter.web.server import WebServer

    rules = _rule_settings(settings)
    agents = NetworkAgents(settings, rules.thresholds)
    alerts = _alertmanager_sink(
        settings, rules, lambda: [(view.labels, view.snapshot) for view in agents.networks() or ()]
    )
    server = WebServer(
        settings.web,
        lambda: None,
        limits=settings.limits,
        runbooks=rules.links.runbooks,
        is_alive=agents.is_healthy,
        readings=[part.readings for part in (agents, alerts) if part is not None],
        networks=agents.networks,
    )
    server.start()
    try:
        agents.start()
        if alerts is not None:
            alerts.start()
        _return_freed_memory()
        log.info("started", extra={"ports": " ".join(map(str, settings.brokers.ports))})
        log.info("stopping", extra={"signal": signals.wait()})
    finally:
        with Deadline(SECONDS):
            if alerts is not None:
                alerts.stop()
            server.stop()
            agents.stop()


def _return_freed_memory() -> None:
    """Return to the kernel what the imports have freed: glibc keeps a third of a MiB of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _journal(settings: Settings) -> tuple[JournalSink | None, Journaling | None]:
    if settings.journal is None:
        return None, None
    from exporter import __version__
    from exporter.journal.journaling import Journaling
    from exporter.journal.own_identity import own_identity
    from exporter.journal.sink import JournalSink
    from exporter.totals.journal_values import Place

    port = settings.web.listen_addresses[0].rpartition(":")[2]
    place = Place(
        agent_id=settings.journal.agent_id or own_identity(port),
        agent_version=__version__,
        labels={name: _label(name, settings.journal.labels) for name in JOURNAL_LABELS},
    )
    sink = JournalSink(settings.journal, place.agent_id, settings.limits.label_bytes)
    return sink, Journaling(settings, place, sink)


def _label(name: str, labels: Mapping[str, str]) -> str | None:
    """Return one label of the journal; a file that is not there is a mistake to be told at once."""
    value = labels.get(name)
    if value is None:
        return None
    try:
        return read_value(name, value) or None
    except ValueError as error:
        raise UsageError(f"journal.labels: {error}") from error


def _rule_settings(settings: Settings) -> RuleSettings:
    """Return the operator's rules: findings keep to their thresholds as alerts do."""
    from exporter.commands.rules import read_rule_settings, rule_settings_from_text

    alertmanager = settings.alertmanager
    if alertmanager is None or alertmanager.rules_file is None:
        return rule_settings_from_text("", "")
    return read_rule_settings(alertmanager.rules_file)


def _alertmanager_sink(
    settings: Settings, rules: RuleSettings, look: Callable[[], Looked]
) -> AlertmanagerSink | None:
    if settings.alertmanager is None:
        return None
    from exporter.alerting.alertmanager import AlertmanagerSink

    return AlertmanagerSink(
        settings.alertmanager,
        rules,
        settings.limits,
        look,
        sender_to,
    )


def sender_to(target: AlertmanagerTarget) -> Callable[[bytes], None]:
    """Return what posts alerts to one Alertmanager: sinks know nothing of how sources fetch."""
    from exporter.alerting.alertmanager import API_PATH
    from exporter.http.fetch import fetch

    def send(body: bytes) -> None:
        fetch(
            target.url.rstrip("/") + API_PATH,
            timeout_seconds=target.timeout,
            max_bytes=LARGEST_ANSWER,
            headers={"Content-Type": "application/json"},
            body=body,
            credentials=target,
        )

    return send
