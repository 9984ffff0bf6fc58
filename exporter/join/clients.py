"""One client as its metrics describe it, read after read: its nodes, its law, its connections.

Pure.
"""

from __future__ import annotations

__all__ = ["Client"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.join.history import READS_OF_LAG
from exporter.join.laws import LAWS, PLAIN, law_told
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.join.history import Row
    from exporter.join.laws import Law
    from exporter.join.pairs import Pair
    from exporter.model import ClientKey, ClientReading


@dataclass(slots=True)
class Client:
    """One client instance over its reads."""

    key: ClientKey
    reading: ClientReading
    rows: dict[str, Row] = field(default_factory=dict)
    shared_reads: int = 0
    """Reads in a row with more nodes that counted than connections that were ever opened."""
    open_reads: int = 0
    """Reads in a row at which it had talked to brokers, and had authenticated with none."""
    is_steady: bool = False
    """Whether the last two reads counted the same connections."""
    is_shown_open: bool = False
    """Whether one of its nodes grew with a socket, equal to the byte: a client has one protocol."""
    law: Law | None = None
    """The law of its connections, once that is known."""

    @property
    def is_open(self) -> bool:
        """Whether a Java client neither encrypts nor logs in: it counts both, and has done neither.

        A page counts them late, but not as late as that.
        """
        return self.is_shown_open or self.open_reads > READS_OF_LAG

    def count_reads(self) -> None:
        """Count how often in a row its last reads said the same odd thing."""
        reading, nodes = self.reading, self.counted_rows
        created = reading.connections_created
        is_more = created is not None and len(nodes) > created
        self.shared_reads = self.shared_reads + 1 if is_more else 0
        is_java = reading.library is Library.JAVA
        is_open = is_java and reading.authentications == 0 and bool(nodes)
        self.open_reads = self.open_reads + 1 if is_open else 0

    def learn_law(self) -> bool:
        """Take what the reads say of its law; return whether that is new."""
        before, self.law = self.law, PLAIN if self.is_open else law_told(self.reading)
        return self.law != before

    @property
    def laws(self) -> Sequence[Law]:
        """The laws that its connections may be under."""
        return LAWS[self.reading.library] if self.law is None else (self.law,)

    def may_begin(self, pair: Pair) -> bool:
        """Whether the handshake and login of a pair may be what they must be.

        librdkafka counts its logins.
        """
        is_counted = self.reading.library is Library.LIBRDKAFKA or self.is_open
        return pair.may_begin(is_open=pair.law == PLAIN and is_counted)

    @property
    def may_log_in(self) -> bool:
        """Whether it may log in again while a connection lives."""
        reading = self.reading
        if reading.library is not Library.JAVA or self.is_open:
            return False
        return reading.reauthentications != 0

    @property
    def held(self) -> int | None:
        """How many connections it says it has, where that has settled."""
        return self.reading.connection_count if self.is_steady else None

    @property
    def created(self) -> int | None:
        """How many connections it ever had."""
        return self.reading.connections_created if self.is_steady else None

    @property
    def never_reconnected(self) -> bool:
        """Whether each node had one connection: as many were ever opened as there are nodes."""
        return self.created is not None and self.created == len(self.counted_rows)

    @property
    def is_shared(self) -> bool:
        """Whether two clients of one client.id are shown as one: more nodes than connections."""
        return self.shared_reads > READS_OF_LAG

    @property
    def counted_rows(self) -> list[Row]:
        """Its nodes that have sent and received."""
        return [row for row in self.rows.values() if row.reads]
