"""How a client opens a connection: the handshake, the login, and what is sent again later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.model import Endpoint, Library
from tests.property.join_simulation.wires import Message, Wire

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from tests.property.join_simulation.security import Bytes
    from tests.property.join_simulation.wires import Client, Node

OLD_JAVA = "2.1.0"

# From which version on Java logs in in the middle of a connection (KIP-368).
_REAUTHENTICATION_SINCE = "2.2"

# A record with 5 bytes in it goes each way when a key of TLS 1.3 is due (jdk.tls.keyLimits).
KEY_UPDATE = 5


class Sockets:
    """Makes the sockets of one host, each with a cookie of its own."""

    def __init__(self, chance: random.Random, address: str) -> None:
        self._chance = chance
        self._address = address
        self._cookie = chance.randrange(1_000, 9_000_000)
        self.ecdsa = False
        self.resumed_bootstrap = 0.0
        self.slow_peers = False
        self.wires: list[Wire] = []

    def connect(self, node: Node, at: float, *, is_bootstrap: bool) -> Wire:
        """Open a connection for a node: what it counts comes after the handshake."""
        chance, client = self._chance, node.client
        self._cookie += chance.randint(1, 9)
        wire = Wire(
            cookie=self._cookie, local=Endpoint(self._address, 30_000 + len(self.wires)),
            remote=node.remote, node=node, opened_at=at,
        )  # fmt: skip
        if self.slow_peers and chance.random() < 0.3:
            wire.delay = chance.uniform(0.01, 0.2)
        at += chance.uniform(0.0001, 0.003)
        security = client.security
        if security.tls is not None:
            at = self._shake_hands(wire, node, at, is_bootstrap=is_bootstrap)
        if security.sasl is not None and client.library is Library.JAVA:
            at = self._log_in(wire, node, at)
        wire.ready_at = at
        if client.library is Library.JAVA and (security.tls or security.sasl):
            client.successes.add(at, 1)
        if security.reauthentication_seconds and logs_in_again(client):
            wire.login_at = at + security.reauthentication_seconds * chance.uniform(0.85, 0.95)
        node.wire = wire
        node.connects += 1
        node.born_at = min(node.born_at, wire.opened_at)
        client.wires.append(wire)
        self.wires.append(wire)
        if security.sasl is not None and client.library is not Library.JAVA:
            for out, incoming in self._messages(node, security.sasl.first, security.sasl.messages):
                at = node.exchange(at, Message(out), Message(incoming), 0.002)
            wire.ready_at = at
        return wire

    def _shake_hands(self, wire: Wire, node: Node, at: float, *, is_bootstrap: bool) -> float:
        chance, client = self._chance, node.client
        tls = client.security.tls
        assert tls is not None
        likely = self.resumed_bootstrap if is_bootstrap else 0.7 * (node.remote in client.sessions)
        wire.resumed = client.library is Library.JAVA and chance.random() < likely
        client.sessions.add(node.remote)
        more = node.certificate
        if wire.resumed:
            out, incoming = tls.resumed.out + more, tls.resumed.incoming + more
            # Now and then a ticket is some bytes shorter.
            out -= chance.choice((0,) * 30 + (10,))
        else:
            # JSSE's tickets hold the certificate, too.
            out, incoming = tls.full.out, tls.full.incoming + 2 * more
        if self.ecdsa and not wire.resumed:
            incoming += chance.randint(-2, 2)
            out += chance.randint(-2, 2) if tls.mutual else 0
        slow = 0.2 if chance.random() < 0.02 else 0.0
        for part_out, part_in in ((0.6, 0.5), (0.4, 0.3)):
            at += chance.uniform(0.0005, 0.006) + slow
            wire.uncounted(at, round(out * part_out), round(incoming * part_in), at + 0.0003)
            at += 0.0004
        left_out, left_in = out - wire.uncounted_out.last, incoming - wire.uncounted_in.last
        wire.uncounted(at, left_out, left_in, at + 0.0002)
        return at + 0.0003

    def _log_in(self, wire: Wire, node: Node, at: float) -> float:
        sasl = node.client.security.sasl
        assert sasl is not None
        return self._uncounted(
            wire, node, at, self._messages(node, sasl.first, sasl.messages, sasl.names)
        )

    def log_in_again(self, wire: Wire, node: Node, at: float) -> float:
        """Log in in the middle of a connection; Java counts nothing of it."""
        security = node.client.security
        sasl, period = security.sasl, security.reauthentication_seconds
        assert sasl is not None
        assert period is not None
        wire.login_at = at + period * self._chance.uniform(0.85, 0.95)
        messages = self._messages(node, sasl.again, sasl.messages_again, sasl.names_again)
        if node.client.library is Library.JAVA:
            at = self._uncounted(wire, node, at, messages)
            node.client.repeats.add(at, 1)
            return at
        for out, incoming in messages:
            at = node.exchange(at, Message(out), Message(incoming), 0.002)
        return at

    def _uncounted(
        self, wire: Wire, node: Node, at: float, messages: Iterator[tuple[int, int]]
    ) -> float:
        free, cost = node.client.free, node.client.security.cost
        records = 2 if node.client.version == OLD_JAVA else 1
        for out, incoming in messages:
            at = free(at + self._chance.uniform(0.0003, 0.003))
            wire.uncounted(at, out + records * cost.out, 0, at)
            at = free(at + self._chance.uniform(0.0003, 0.003))
            wire.uncounted(at, 0, incoming + cost.incoming, at)
            at += 0.0001
        return at

    def _messages(
        self, node: Node, size: Bytes, count: int, names: int = 0
    ) -> Iterator[tuple[int, int]]:
        """Yield a login's messages; a nonce varies what it sends and gets, a name is sent often."""
        sasl = node.client.security.sasl
        assert sasl is not None
        chance, jitter = self._chance, sasl.jitter
        names_length = names * login_length(node.client.client_id)
        out = size.out + names_length + chance.randint(-jitter.out, jitter.out)
        incoming = size.incoming + chance.randint(-jitter.incoming, jitter.incoming)
        for left in range(count, 0, -1):
            part_out = out if left == 1 else out // left
            part_in = incoming if left == 1 else incoming // left
            yield part_out, part_in
            out, incoming = out - part_out, incoming - part_in

    def renew_key(self, wire: Wire, at: float) -> None:
        """Send a KeyUpdate and take the broker's."""
        cost = wire.node.client.security.cost
        wire.uncounted(at, KEY_UPDATE + cost.out, KEY_UPDATE + cost.incoming, at + 0.0005)


def logs_in_again(client: Client) -> bool:
    return client.library is not Library.JAVA or client.version >= _REAUTHENTICATION_SINCE


def login_length(client_id: str) -> int:
    """Return the length of the name that a Java client logs in with.

    An admin client without a configured client.id names itself later.
    """
    return 0 if client_id.startswith("adminclient-") else len(client_id)
