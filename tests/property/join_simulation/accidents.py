"""What befalls clients: lost connections, restarts, threads that stand still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.model import ClientKind, Role
from tests.property.join_simulation import lives
from tests.property.join_simulation.host import NEVER, QUIET_SECONDS
from tests.property.join_simulation.population import start
from tests.property.join_simulation.wires import COUNT_SECONDS

if TYPE_CHECKING:
    from tests.property.join_simulation.host import Host
    from tests.property.join_simulation.wires import Client, Node

# A connection that is to close goes on for so long: what is under way is answered.
NOTICE_SECONDS = 2.0


def plan_accidents(host: Host) -> None:
    """Let accidents happen at moments of the coming minute and a half."""
    chance, traits = host.chance, host.traits
    for name, times, do in (
        ("reconnects", chance.randint(1, 5), _lose_some),
        ("restarts", 1, _restart_one),
        ("key updates", 1, _renew_one),
        ("not polling", 2, _stop_polling),
    ):
        # Keys are renewed after 128 GiB: what is simulated here has not carried so much unobserved.
        earliest = 66 if name == "key updates" and traits["late agent"] else 5
        for _ in range(times if traits[name] else 0):
            host.at(host.now + chance.uniform(earliest, 80), lambda at, do=do: do(host, at))


def _steady_clients(host: Host, at: float) -> list[Client]:
    """Return clients to which nothing else is about to happen."""
    return [
        client
        for client in host.plans
        if client.started_at < at - 3.0 and client.ended_at == NEVER and client.steady_from < at
        and all(wire.closed_at < at or wire.closed_at == NEVER for wire in client.wires)
    ]  # fmt: skip


def _open_nodes(host: Host, at: float) -> list[Node]:
    return [
        node
        for client in _steady_clients(host, at)
        for node in client.nodes.values()
        if node.wire is not None and node.wire.closed_at == NEVER and node.wire.ready_at < at
    ]


def _lose_some(host: Host, at: float) -> None:
    """Close a connection, or all to one broker; nodes that are in use connect again."""
    chance = host.chance
    nodes = _open_nodes(host, at)
    if not nodes:
        return
    lost = [chance.choice(nodes)]
    if chance.random() < 0.2:
        lost = [node for node in nodes if node.remote == lost[0].remote]
    for node in lost:
        closed_at = node.wire.closed_at = at + NOTICE_SECONDS
        again = closed_at + chance.uniform(0.05, 3.0)
        node.client.steady_from = again + 1.0
        # A bootstrap server is gone back to only by a client that has lost all others.
        likely = 0.1 if node.role is Role.BOOTSTRAP else 1.0 if node.talk else 0.5
        if chance.random() < likely:
            host.at(again, lambda moment, n=node: lives.reopen(host, n, moment))


def _restart_one(host: Host, at: float) -> None:
    """End a client and start it again under the same name."""
    chance = host.chance
    steady = _steady_clients(host, at)
    if not steady:
        return
    client = chance.choice(steady)
    process, plan = host.plans[client]
    client.ended_at = at + NOTICE_SECONDS
    for wire in client.wires:
        wire.closed_at = min(wire.closed_at, client.ended_at)
    later = client.ended_at + chance.uniform(0.05, 5.0)
    again = start(host, process, plan, client.client_id, later)
    again.hidden = client.hidden


def _renew_one(host: Host, at: float) -> None:
    nodes = [
        each for each in _open_nodes(host, at)
        if each.talk and each.client.security.tls and each.client.security.tls.protocol == "TLSv1.3"
    ]  # fmt: skip
    if nodes:
        node = host.chance.choice(nodes)
        host.sockets.renew_key(node.wire, max(at, node.busy_until))


def _stop_polling(host: Host, at: float) -> None:
    """Let a consumer's application not poll for a while; the broker may close an idle connection."""
    chance = host.chance
    clients = [each for each in _steady_clients(host, at) if each.kind is ClientKind.CONSUMER]
    if not clients:
        return
    client = chance.choice(clients)
    begin, end = at + 1.0, at + chance.uniform(5, 25)
    client.stalls.append((begin, end))
    client.steady_from = client.stalled_until = end + 1.0
    idle = [
        node for node in client.nodes.values()
        if node.wire is not None and node.wire.closed_at == NEVER and node.next_at > end + 9.0
        and node.busy_until < begin
    ]  # fmt: skip
    if idle and chance.random() < 0.6:
        # It has closed, the client does not know: close_notify and FIN wait to be read.
        wire = chance.choice(idle).wire
        wire.half_closed_at = chance.uniform(begin + 0.5, end - 0.5)
        wire.closed_at = end + 0.1
        cost = client.security.cost.incoming
        wire.arrived.add(wire.half_closed_at, (cost + 2 if cost else 0) + 1)


def tear(host: Host, client: Client, begin: float, end: float) -> None:
    """Interrupt a client's thread just after a write or a read that it then has not counted.

    Its busy nodes are brought up to that moment first.
    """
    host.advance(begin - 0.05)
    chance, plan = host.chance, host.plans[client][1]
    busy = [
        node for node in client.nodes.values()
        if node.next_at < end + 2.0 and node.wire is not None and node.busy_until < begin - 0.045
        and node.wire.closed_at > end + QUIET_SECONDS and node.wire.ready_at < begin - 0.05
        and node.wire.login_at > end
    ]  # fmt: skip
    client.stalls = [stall for stall in client.stalls if stall[1] > begin - 5.0]
    client.stalls.append((begin, end))
    for node in chance.sample(busy, min(len(busy), chance.choice((1, 1, 2)))):
        if chance.random() < 0.3:
            # It has taken an answer that it has not counted.
            node.talk(begin - 0.04)
            # A request without an answer leaves the last answer where it was.
            if node.busy_until < begin and node.incoming.times[-1] >= begin - 0.04:
                node.incoming.times[-1] = node.responses.times[-1] = node.busy_until = end
            node.next_at = max(node.next_at, node.busy_until)
            continue
        # Nothing is counted yet, or its bytes are.
        cut = chance.choice((0.4, 0.4, 1.4)) * COUNT_SECONDS
        due = node.next_at
        following = node.talk(begin - cut)
        if following <= due and plan.steady:
            # What was due next was only sent early: it stays in step.
            following = plan.beat(due)
        node.next_at = max(following, end)
