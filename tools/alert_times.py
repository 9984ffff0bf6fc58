"""docs/alert-times.md from what the end-to-end run wrote down: cause to firing, end to resolved."""

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
PAGE = REPOSITORY / "docs" / "alert-times.md"
HEAD = """\
# From a cause to a notification

Written by `tools/alert_times.py` from the end-to-end run: real brokers, real Java clients with
jmx_exporter and librdkafka clients, the agent as a process, Prometheus 2.42 and Alertmanager 0.25,
and a webhook that notes when it is told.
Each alert of the rules is provoked there by what it is about, and its end is waited for.

```sh
tools/install_prometheus.sh
pytest tests/e2e                   # writes .cache/alert-times.json; what is marked ondemand, too
python -m tools.alert_times        # writes this page
```

In the run a scrape and an evaluation come each second, `for` is 6 s, `keep_firing_for` 5 s, and
Alertmanager waits for nothing (`group_wait` 0 s): what is left is the time that it takes to see the
cause.
Some [thresholds](../rules/README.md#change-them) are an operator's own, or an hour would have to
pass: {thresholds}.
With the defaults of [the rules](../rules/README.md) `for` is longer, and that much later the alert
fires.
"Resolved" counts from the end of the cause.
"Agent" is the agent's own way, [without Prometheus](alertmanager.md): it looks at its findings
every two seconds; `-` where it cannot tell, for it is gone.
Of a client that has just begun it tells low efficiency late, after half a window, but it counts
`for` from when the rule's condition holds, as Prometheus does.

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
With all durations at a tenth of the defaults, Prometheus told of {notes["healthy_alerts"]} alerts.

What the agent served meanwhile is played to the rules as they are shipped, at their default
durations, second for second for {notes["replayed_minutes"]} minutes of simulated time: each ten
minutes the restart and the deployment, then the quiet seconds after them again and again
(`python -m tools.replay_trace`): no alert.
An hour of made-up figures of the same is in `tests/rules/healthy.test.yaml`: no alert.

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
        f"[{alert.name}](runbooks/{alert.runbook}.md)",
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
