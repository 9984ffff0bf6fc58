"""Write docs/internals/alert-times.md from the end-to-end run: cause to firing, end to resolved."""

from __future__ import annotations

__all__ = ["page_of"]

import json
import os
import sys
from pathlib import Path
from typing import Any

from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.text import written_duration

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs" / "internals" / "alert-times.md"
HEAD = """\
# Alert times

How long each alert takes from its cause to a notification, and from the end of the cause to
resolved. Measured end to end: real brokers, Java clients with jmx_exporter, librdkafka clients, the
agent as a process, Prometheus 2.42, Alertmanager 0.25, and a webhook that records notifications.

```sh
tools/install_prometheus.sh
pytest tests/e2e                   # writes .cache/alert-times.json; includes tests marked ondemand
python -m tools.alert_times        # writes this page
```

Scrape and evaluation interval are 1 s, `for` is 6 s, `keep_firing_for` 5 s and `group_wait` 0 s.
Some [thresholds](../../rules/README.md#change-them) are lower than their defaults: {thresholds}.
With the default [rules](../../rules/README.md) an alert fires later by the difference in `for`.
"Agent" is the alert that the agent sends itself, [without Prometheus](../alertmanager.md); `-`
where it cannot, because it is down.

| alert | cause | firing: Prometheus | agent | resolved: Prometheus | agent | default `for` |
| --- | --- | --- | --- | --- | --- | --- |
"""


def page_of(record: dict[str, Any]) -> str:
    """Return the page that says what a run's record holds."""
    order = list(ALERTS_BY_NAME)
    causes = sorted(record["causes"], key=lambda cause: order.index(cause["alert"]))
    notes = record["notes"]
    chosen = (f"`{name}: {value}`" for name, value in notes["thresholds"].items())
    return (
        HEAD.format(thresholds=", ".join(chosen))
        + "\n".join(_row(cause) for cause in causes)
        + f"""

## No false alarms

For {notes["healthy_seconds"]} s the same run watches healthy clients only: seven producers in one
process, one of them transactional, a group consumer and an admin client (Java), a producer and a
group consumer (librdkafka).
A broker restarts, and the Java process is replaced as in a rolling deployment.
With all durations at a tenth of the defaults, Prometheus fired {notes["healthy_alerts"]} alerts.

The metrics of that run are replayed to the default rules for {notes["replayed_minutes"]} minutes of
simulated time, with the restart and the deployment every ten minutes
(`python -m tools.replay_trace`): no alert.
`tests/rules/healthy.test.yaml` has an hour of constructed metrics of healthy clients: no alert.

All {notes["expressions"]} rules of the run were evaluated without an error, and every recording
rule had data.
"""
    )


def _row(cause: dict[str, Any]) -> str:
    alert = ALERTS_BY_NAME[cause["alert"]]
    times = [
        f"{cause[kind][way] - cause[since]:.0f} s" if way in cause["ways"] else "-"
        for kind, since in (("firing", "began"), ("resolved", "ended"))
        for way in ("prometheus", "agent")
    ]
    cells = [
        f"[{alert.name}](../runbooks/{alert.runbook}.md)",
        cause["cause"],
        *times,
        written_duration(alert.fire_after.seconds),
    ]
    return f"| {' | '.join(cells)} |"


def _is_whole(cause: dict[str, Any]) -> bool:
    """Whether each way told of its beginning and of its end."""
    return set(cause["ways"]) <= set(cause["firing"]) & set(cause["resolved"])


def main() -> int:
    """Write the page."""
    cache = Path(os.environ.get("BROKERWIRE_CACHE") or REPOSITORY / ".cache")
    path = cache / "alert-times.json"
    if not path.exists():
        print("no record of a run: run pytest tests/e2e first", file=sys.stderr)
        return 2
    record = json.loads(path.read_text())
    record["causes"] = [cause for cause in record["causes"] if _is_whole(cause)]
    told = {cause["alert"] for cause in record["causes"]}
    if missing := [name for name in ALERTS_BY_NAME if name not in told]:
        print(f"no run has seen the life of {', '.join(missing)}", file=sys.stderr)
        return 2
    PAGE.write_text(page_of(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
