"""*Agent health*: whether brokerwire itself is well, and what it costs."""

from __future__ import annotations

__all__ = ["PAGE"]

from tools.dashboards.layout import Page, Row, in_thirds
from tools.dashboards.links import of_row
from tools.dashboards.panels import bars, dashed, lines, numbers, stacked, with_unit
from tools.dashboards.queries import OF_AGENT, Query, series
from tools.dashboards.tables import Column, table
from tools.dashboards.thresholds import THRESHOLDS, above

_UID = "brokerwire-agent"
_BUILD = series("brokerwire_build_info", OF_AGENT)
_LAST = series("brokerwire_last_poll_timestamp_seconds", OF_AGENT)
_TARGET = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job",instance=~"$instance"'
_ON = "job, instance"
# As BrokerwireAgentDown has it: which targets are agents is known from what they said within a day.
_KNOWN = f"group by ({_ON}) (last_over_time({_BUILD}[1d]))"
_FAULT = above(1)
_UP_FOR = f"""\
max by (instance, version, python_version, method) (
  (time() - {series("process_start_time_seconds", OF_AGENT)})
  * on ({_ON}) group_left (version, python_version) {_BUILD}
  * on ({_ON}) group_left (method) ({series("brokerwire_read_method", OF_AGENT)} == 1)
)"""

# Of several sinks the one that is latest: what one has and the other has not is not safe there.
_SAFE_FOR = f"""\
max by (instance) (
  time() - {series("brokerwire_journal_last_success_timestamp_seconds", OF_AGENT)}
)"""


def _rate(name: str, *matchers: str) -> str:
    return f"rate({series(name, OF_AGENT, *matchers)}[$__rate_interval])"


def _by_agent(name: str) -> str:
    return f"max by (instance) ({series(name, OF_AGENT)})"


def _of_agents(name: str) -> str:
    """Return a metric that every process has, of agents alone."""
    selector = series(name, OF_AGENT)
    metric = f"rate({selector}[5m])" if name.endswith("_total") else selector
    return f"{metric}\nand on ({_ON}) {_BUILD}"


def _glance() -> Row:
    up = numbers(
        "Are all agents up?",
        "Agents that answer, and agents of the last day that Prometheus cannot scrape now: their"
        " clients are not watched. A pod that is gone for good is in neither.",
        Query(f"count({_BUILD})", "up"),
        Query(f"count(up{{{_TARGET}}} == 0 and on ({_ON}) {_KNOWN}) or vector(0)", "down"),
        Query(f"sum({series('brokerwire_source_up', OF_AGENT)} == bool 0)", "sources down"),
        Query(f"max(time() - {_LAST})", "oldest poll"),
    )
    with_unit(up, "down", "short", _FAULT)
    with_unit(up, "sources down", "short", _FAULT)
    with_unit(up, "oldest poll", "s", above(THRESHOLDS.poll_age))
    cost = bars(
        "What does it cost?",
        "The agents that use most CPU (in percent of one core, over five minutes).",
        Query(f"topk(5, 100 * ({_of_agents('process_cpu_seconds_total')}))", "{{instance}}"),
    ).unit("percent")
    memory = bars(
        "How much memory?",
        "The agents with most resident memory. It grows with the connections that are followed and"
        " the clients that have series of their own (limits in the configuration).",
        Query(f"topk(5, {_of_agents('process_resident_memory_bytes')})", "{{instance}}"),
    ).unit("bytes")
    owned = bars(
        "Can it tell whose they are?",
        "Connections by what told whose they are. proc_fd: the process itself (needs the same uid,"
        " or privileges). cgroup: its container. uid: only the user. unattributed: nobody; run the"
        " agent under the client's uid or share the process namespace.",
        Query(f"sum by (rung) ({series('brokerwire_owned_connections', OF_AGENT)})", "{{rung}}"),
    )
    return Row(
        title="At a glance",
        panels=[each.span(6).height(8) for each in (up, owned, cost, memory)],
    )


def _sources() -> Row:
    by = "instance, source, kind"
    found = table(
        "Sources",
        "Where the clients' own metrics come from. A source that is down leaves its clients to the"
        " kernel's signs alone; the agent's page and log have the message. Lost reads were good but"
        " came faster than the polls could take them."
        " BrokerwireSourceDown fires after five minutes.",
        Column(title="Agent", label="instance", link=of_row(_UID, "instance")),
        Column(title="Source", label="source"),
        Column(title="Kind", label="kind", width=100),
        Column(
            title="Up",
            width=60,
            query=f"min by ({by}) ({series('brokerwire_source_up', OF_AGENT)})",
            words={"0": "no", "1": "yes"},
        ),
        Column(
            title="Clients",
            width=80,
            query=f"sum by ({by}) ({series('brokerwire_source_clients', OF_AGENT)})",
        ),
        Column(
            title="Failed reads",
            width=110,
            query=f"sum by ({by}) ({series('brokerwire_source_errors_total', OF_AGENT)})",
            colours=_FAULT,
        ),
        Column(
            title="Lost reads",
            width=100,
            query=f"sum by ({by}) ({series('brokerwire_source_dropped_reads_total', OF_AGENT)})",
        ),
        Column(
            title="Last good read",
            width=130,
            unit="s",
            query=f"max by ({by}) (\n  time() - "
            f"{series('brokerwire_source_last_success_timestamp_seconds', OF_AGENT)}\n)",
        ),
        sort="Failed reads",
    )
    took = lines(
        "How long a read takes",
        "Time of the last read of each source that is fetched. A slow page is the client's: it"
        " costs its JVM as much.",
        Query(
            f"max by (instance, source) ({series('brokerwire_source_duration_seconds', OF_AGENT)})",
            "{{source}} of {{instance}}",
        ),
    )
    return Row(
        title="Sources",
        panels=[found.span(14).height(8), took.unit("s").span(10).height(8)],
    )


def _polls() -> Row:
    took = lines(
        "How long a poll takes",
        "Time to read the socket table and class each connection, against the time between two"
        " polls (dashed): a poll that takes longer is late.",
        Query(
            f"max by (instance) ({series('brokerwire_poll_duration_seconds', OF_AGENT)})",
            "{{instance}}",
        ),
        Query(f"min({series('brokerwire_poll_interval_seconds', OF_AGENT)})", "interval"),
    )
    dashed(took, "interval")
    failed = lines(
        "Lost sight of, a minute",
        "Polls that could not read the socket table, close events that the kernel dropped (healed"
        " by the next poll), and connections that ended before their owner was known. 0 is good.",
        Query(f"60 * sum({_rate('brokerwire_poll_failures_total')})", "failed polls"),
        Query(f"60 * sum({_rate('brokerwire_events_lost_total')})", "lost events"),
        Query(f"60 * sum({_rate('brokerwire_unattributed_closed_total')})", "closed unseen"),
    )
    agents = table(
        "Agents",
        "Version, how long each has been up, and how it reads the socket table: sock_diag is exact"
        " and cheap, psutil the fallback where netlink is refused. Without close events (0),"
        " connections shorter than a poll are missed. Folded clients are beyond limits.clients and"
        " summed as `other`.",
        Column(title="Agent", label="instance", link=of_row(_UID, "instance")),
        Column(title="Version", label="version", width=80),
        Column(title="Python", label="python_version", width=80),
        Column(title="Reads by", label="method", width=90),
        Column(title="Up for", unit="s", width=90, query=_UP_FOR),
        Column(title="Events", width=70, query=_by_agent("brokerwire_events_available")),
        Column(title="Folded", width=70, query=_by_agent("brokerwire_folded_clients")),
        sort="Up for",
    )
    return Row(
        title="Polls",
        panels=in_thirds(took.unit("s"), failed.unit("cpm"), agents),
    )


def _serving() -> Row:
    requests = lines(
        "Requests a minute",
        "What the agent's own server answers, by page and code: Prometheus asks for /metrics as"
        " often as it scrapes.",
        Query(
            f"60 * sum by (handler, code) ({_rate('brokerwire_http_requests_total')})",
            "{{handler}} {{code}}",
        ),
    )
    rejected = lines(
        "Turned away",
        "Connections that the server holds now, and those that it turned away or cut off, a minute:"
        " too many at once, too slow, or no HTTP.",
        Query(f"sum({series('brokerwire_http_connections', OF_AGENT)})", "held"),
        Query(
            f"60 * sum by (reason) ({_rate('brokerwire_http_rejected_connections_total')})",
            "{{reason}}",
        ),
    )
    files = table(
        "Files that can be changed while it runs",
        "Web configuration and certificate: whether the last version was good (the last good one"
        " stays in use), and when the certificate ends. Empty where there is none.",
        Column(title="Agent", label="instance"),
        Column(title="File", label="file"),
        Column(
            title="Good",
            width=70,
            query="min by (instance, file) "
            f"({series('brokerwire_config_last_reload_successful', OF_AGENT)})",
            words={"0": "no", "1": "yes"},
        ),
        Column(
            title="Bad versions",
            width=110,
            query="max by (instance, file) "
            f"({series('brokerwire_config_reload_failures_total', OF_AGENT)})",
            colours=_FAULT,
        ),
        Column(
            title="Certificate ends in",
            unit="s",
            width=140,
            query="min by (instance) ("
            f"{series('brokerwire_certificate_expiry_timestamp_seconds', OF_AGENT)} - time())",
        ),
        sort="Bad versions",
    )
    return Row(
        title="Its server",
        panels=in_thirds(requests.unit("cpm"), rejected, files),
        folded=True,
    )


def _alerting() -> Row:
    states = stacked(
        "Alerts that it follows",
        "Alerts that the agents follow for their own Alertmanagers (not Prometheus's rules), by"
        " state. Empty where no Alertmanager is configured.",
        Query(f"sum by (state) ({series('brokerwire_alerts', OF_AGENT)})", "{{state}}"),
    )
    sent = lines(
        "Sent and not taken, a minute",
        "Alerts that each Alertmanager took, and requests that it did not take; these are tried"
        " again.",
        Query(
            f"60 * sum by (alertmanager) ({_rate('brokerwire_alerts_sent_total')})",
            "sent to {{alertmanager}}",
        ),
        Query(
            f"60 * sum by (alertmanager) ({_rate('brokerwire_alert_request_failures_total')})",
            "failed at {{alertmanager}}",
        ),
        Query(
            f"60 * sum by (alertmanager) ({_rate('brokerwire_alerts_dropped_total')})",
            "dropped for {{alertmanager}}",
        ),
    )
    waiting = lines(
        "Waiting",
        "Alerts that wait for an Alertmanager: a number that stays up is one that cannot be"
        " reached.",
        Query(
            f"max by (alertmanager) ({series('brokerwire_alerts_queued', OF_AGENT)})",
            "{{alertmanager}}",
        ),
    )
    return Row(
        title="Alerts that it sends itself",
        panels=in_thirds(states, sent.unit("cpm"), waiting),
        folded=True,
    )


def _journal() -> Row:
    kept = lines(
        "Records made safe, a minute",
        "Records of the journal that are on disk (file, spool) or acknowledged by brokers (kafka)."
        " The rollups are made of them. Empty where no journal is configured.",
        Query(f"60 * sum by (sink) ({_rate('brokerwire_journal_records_total')})", "{{sink}}"),
    )
    lost = lines(
        "Failed and given up, a minute",
        "Writes and sends that failed, which are tried again, and records that were given up"
        " because there was no room to wait: those are missing in the rollups.",
        Query(
            f"60 * sum by (sink) ({_rate('brokerwire_journal_failures_total')})",
            "failed at {{sink}}",
        ),
        Query(
            f"60 * sum by (sink) ({_rate('brokerwire_journal_dropped_records_total')})",
            "given up by {{sink}}",
        ),
    )
    waiting = table(
        "What waits",
        "How long ago records were last made safe, room that those take on disk which brokers do"
        " not have yet, and the connections that the agent itself holds to brokers for it.",
        Column(title="Agent", label="instance", link=of_row(_UID, "instance")),
        Column(title="Last safe", unit="s", query=_SAFE_FOR),
        Column(title="Spool", unit="bytes", query=_by_agent("brokerwire_journal_spool_bytes")),
        Column(title="Batches", query=_by_agent("brokerwire_journal_spool_batches")),
        Column(title="Series", query=_by_agent("brokerwire_journal_series")),
        Column(title="Own connections", query=_by_agent("brokerwire_own_broker_connections")),
        sort="Last safe",
    )
    return Row(
        title="Journal",
        panels=in_thirds(kept.unit("cpm"), lost.unit("cpm"), waiting),
        folded=True,
    )


PAGE = Page(
    uid=_UID,
    text="Whether the agents are well: who is up, which sources they cannot read, how fresh their"
    " polls are, whose connections they can tell, and what they cost.",
    labels=OF_AGENT,
    rows=(_glance(), _sources(), _polls(), _serving(), _alerting(), _journal()),
)
