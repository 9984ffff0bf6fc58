"""What the demo shows: each client, what it holds, what is wrong with it, and what to change."""

from __future__ import annotations

__all__ = ["board", "legend"]

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from exporter.demo.scene import ROLES
from exporter.model import WASTED_CLASSES, ConnectionClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.demo.scene import Part
    from exporter.snapshot import Snapshot

GOOD = frozenset({ConnectionClass.DATA, ConnectionClass.COORDINATOR, ConnectionClass.TRANSACTION})
PROBE = "health-probe"
_STAGED = (
    f"Staged on bare sockets: {', '.join(part.process for part in ROLES if part.is_staged)}."
    " All others are librdkafka against its own mock cluster."
)


def board(
    snapshot: Snapshot | None, page: str, ended: Sequence[str], *, is_small: bool = False
) -> Group:
    """Return the whole picture of a moment; on a small screen each client on one line."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("CLIENT", no_wrap=True)
    table.add_column("HOLDS NOW", min_width=20)
    table.add_column("EXPECTED", justify="right")
    table.add_column("OPENED", justify="right")
    if not is_small:
        table.add_column("WHAT IT IS, AND THE RECOMMENDATION", ratio=1)
    for part in ROLES:
        cells = _row(part, snapshot, is_over=part.process in ended)
        table.add_row(*(cells[:-1] if is_small else cells))
    return Group(
        Text.assemble(
            "page ", (f"{page}/", "bold cyan"), "   metrics ", (f"{page}/metrics", "cyan")
        ),
        _summary(snapshot),
        Text(),
        table,
        Text(),
        Text(_STAGED),
        Text(f"Ask it yourself: brokerwire inspect --agent {page}", style="dim"),
        Text(f"or about one client: brokerwire explain many-producers --agent {page}", style="dim"),
    )


def legend() -> Text:
    """Return the explanations, for above a small screen's table."""
    text = Text()
    for part in ROLES:
        text.append(part.process, style="bold").append(f": {part.what}")
        text.append(f" Recommendation: {part.change}\n" if part.change else "\n", style="green")
    return text


def _row(part: Part, snapshot: Snapshot | None, *, is_over: bool) -> list[Text]:
    name = Text(part.process, style="bold")
    if is_over:
        return [name, Text("ended by itself", style="red"), Text(), Text(), Text(part.what)]
    words = Text(part.what)
    if part.change:
        words.append(f"\nRecommendation: {part.change}", style="green")
    counts = _counts(part.process, snapshot)
    expected = _expected(part.process, snapshot)
    return [
        name,
        _held(counts),
        Text("-" if expected is None else str(expected)),
        Text(str(_opened(part.process, snapshot))),
        words,
    ]


def _counts(process: str, snapshot: Snapshot | None) -> Counter[ConnectionClass]:
    connections = () if snapshot is None else snapshot.connections
    return Counter(each.connection_class for each in connections if each.owner.name == process)


def _held(counts: Counter[ConnectionClass]) -> Text:
    """Write `3 data, 1 coordinator`, each class in the colour of its worth."""
    text = Text()
    for each in (each for each in ConnectionClass if counts[each]):
        style = "bold red" if each in WASTED_CLASSES else "green" if each in GOOD else "yellow"
        text.append(", " if text else "")
        text.append(f"{counts[each]} {each}", style=style)
    return text or Text("none", style="dim")


def _expected(process: str, snapshot: Snapshot | None) -> int | None:
    if snapshot is None:
        return None
    counts = [each.count for key, each in snapshot.expected.items() if key.process == process]
    return sum(counts) if counts else None


def _opened(process: str, snapshot: Snapshot | None) -> int:
    """Count from the agent's start, those included that no poll ever met."""
    if snapshot is None:
        return 0
    opened = sum(count for key, count in snapshot.totals.opened.items() if key.process == process)
    return opened + (sum(snapshot.totals.probes.values()) if process == PROBE else 0)


def _summary(snapshot: Snapshot | None) -> Text:
    if snapshot is None:
        return Text("looking ...")
    counts = Counter(each.connection_class for each in snapshot.connections)
    waste = sum(counts[each] for each in WASTED_CLASSES)
    spent = sum(snapshot.totals.known_seconds().values())
    useful = sum(snapshot.totals.useful_seconds.values())
    text = Text(f"{sum(counts.values())} connections, ")
    text.append(f"{waste} waste", style="bold red" if waste else "")
    if spent > 0:
        text.append(f"; {min(1.0, useful / spent):.0%} of all connection-seconds were useful")
    return text
