"""What each class means in a few words, and times as the page writes them."""

from __future__ import annotations

__all__ = ["CLASS_WORDS", "TIMES", "clock_time"]

TIMES = " \N{MULTIPLICATION SIGN} "

CLASS_WORDS = {
    "ghost": "descriptor open, socket dead",
    "half_closed": "closed by the broker, not by the client",
    "connecting": "TCP handshake not complete",
    "stale": "to an address that no broker has any more",
    "zombie": "never used again, never closed",
    "excess": "more than this client needs",
    "bootstrap": "opened to discover the brokers",
    "coordinator": "the consumer group's coordinator",
    "transaction": "the transaction coordinator",
    "data": "produce and fetch",
    "admin": "administrative requests",
    "probe": "no Kafka traffic: a health check",
    "unknown": "too early or not enough evidence",
}


def clock_time(text: str | None) -> str:
    """Write a document's time as people do."""
    return "" if text is None else f"{text[:10]} {text[11:19]} UTC"
