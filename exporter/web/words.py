"""What each class means in a few words, and times as the page writes them."""

from __future__ import annotations

__all__ = ["CLASS_WORDS", "TIMES", "clock_time"]

TIMES = " \N{MULTIPLICATION SIGN} "

CLASS_WORDS = {
    "ghost": "descriptor open, socket dead",
    "half_closed": "the broker has closed, the client has not",
    "connecting": "not through yet",
    "stale": "to an address that is no broker's any more",
    "zombie": "never used again, never closed",
    "excess": "more than this client needs",
    "bootstrap": "opened to learn the brokers",
    "coordinator": "the consumer group's coordinator",
    "transaction": "the transaction coordinator's own",
    "data": "produce and fetch",
    "admin": "control work",
    "probe": "short, no Kafka in it: a health check",
    "unknown": "too early or too little to tell",
}


def clock_time(text: str | None) -> str:
    """Write a document's time as people do."""
    return "" if text is None else f"{text[:10]} {text[11:19]} UTC"
