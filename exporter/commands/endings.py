"""The last lines of a look: how many clients there are, what is unknown, and what would tell.

Nothing is called well where something is unknown.
"""

from __future__ import annotations

__all__ = ["clients_text", "ending_text"]

from typing import TYPE_CHECKING, Any

from rich.text import Text

from exporter.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exporter.commands.looking import Document

LONGEST_NAME = 48
_KINDS = {"producers": "producer", "consumers": "group consumer", "admins": "admin client"}
_OPEN_GROUPS = (
    "It cannot be seen which connections are one client: run brokerwire under the application's uid"
    " with a shared pid namespace (shareProcessNamespace: true)."
)
_WAIT = "A longer look (--for 30s) tells more: what is in use shows only while it is used."
_METRICS = (
    "The clients' metrics tell the rest (sources in the configuration: jmx_exporter, Jolokia, or"
    " librdkafka's statistics)."
)


def clients_text(document: Document) -> Text:
    """Return a line for each process: how many clients of which kind it runs."""
    lines = []
    for each in document.get("process_clients", []):
        words = [_count(each.get(field), kind) for field, kind in _KINDS.items() if each.get(field)]
        numbers = {
            one.get("client_number")
            for one in document["connections"]
            if one.get("pid") == each.get("pid") and one.get("client_number") is not None
        }
        threads = sum(each.get(field) or 0 for field in _KINDS)
        if len(numbers) > threads:
            # A consumer that is assigned its partitions has no thread of its own.
            words.append(_count(len(numbers) - threads, "client") + " of unknown kind")
        if each.get("librdkafka"):
            words.append(_count(each["librdkafka"], "client") + " of librdkafka")
        if words:
            name = printable(str(each.get("process") or "?"), LONGEST_NAME)
            lines.append(f"{name} {each.get('pid') or ''}: {', '.join(words)}")
    return Text("\n".join(lines))


def ending_text(document: Document) -> Text:
    """Return what the look was able to tell; that all is well only where nothing is unknown."""
    connections: Sequence[Mapping[str, Any]] = document["connections"]
    unknown = sum(one.get("class") == "unknown" for one in connections)
    guesses = sum(one.get("confidence") == "weak" for one in connections)
    text = Text()
    if not unknown and not document["findings"]:
        text.append("Nothing to change", style="green")
        text.append(f", if {_are(guesses)} right." if guesses else ".", style="green")
    elif unknown:
        text.append(
            f"{unknown} of {_count(len(connections), 'connection')} unknown:"
            " neither use nor waste is known of them.",
            style="yellow",
        )
        for line in _what_opens(document):
            text.append(f"\n{line}", style="dim")
    return text


def _are(guesses: int) -> str:
    return "1 guess (weak) is" if guesses == 1 else f"{guesses} guesses (weak) are"


def _what_opens(document: Document) -> list[str]:
    told_apart = [each.get("told_apart") for each in document.get("process_clients", [])]
    closed = False in told_apart or any(
        one.get("owner_rung") != "proc_fd" for one in document["connections"]
    )
    return [*([_OPEN_GROUPS] if closed else []), _WAIT, _METRICS]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
