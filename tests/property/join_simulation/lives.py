"""A client's life: its bootstrap servers, what it learns from them, what it connects to then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.model import ClientKind, Endpoint, Library, Role
from tests.property.join_simulation import clients as doing
from tests.property.join_simulation.connecting import OLD_JAVA
from tests.property.join_simulation.host import NEVER, host_name
from tests.property.join_simulation.wires import Node

if TYPE_CHECKING:
    from tests.property.join_simulation.clients import Plan
    from tests.property.join_simulation.host import Broker, Host
    from tests.property.join_simulation.wires import Client

LOAD_BALANCER = "10.1.1.1"

_TALKS = {
    ClientKind.PRODUCER: doing.produces,
    ClientKind.CONSUMER: doing.fetches,
    ClientKind.ADMIN: doing.asks,
}


def begin(host: Host, client: Client, at: float) -> None:
    """Connect to bootstrap servers; what is learned from them is connected to afterwards."""
    chance, (process, plan) = host.chance, host.plans[client]
    order = list(process.list_order)
    if host.traits["shuffled lists"]:
        chance.shuffle(order)
    listed = order[: chance.randint(1, len(order))]
    chosen = chance.sample(range(len(listed)), min(plan.bootstraps, len(listed)))
    learned = at
    for number, index in enumerate(chosen):
        node = _bootstrap_node(host, client, host.brokers[listed[index]], index)
        # Others are tried while the first is not ready: none after metadata has come.
        begins = at if number == 0 else chance.uniform(at, learned)
        wire = host.sockets.connect(node, begins, is_bootstrap=True)
        if not plan.greets:
            continue
        more: tuple[str, ...] = ()
        if number == 0:
            # Metadata goes to one of them, and now and then what a producer or a group begins with.
            more = ("metadata", *chance.choice(((), (), ("producer",), ("coordinator",))))
        done = doing.greet(node, plan, wire.ready_at, _answer(client), more)
        learned = max(learned, done) if number == 0 else learned
        if client.library is not Library.JAVA:
            wire.closed_at = max(wire.opened_at + 2.0, done + 0.5)
            node.gone_at = wire.closed_at + chance.uniform(0.0, 3.0)
        elif host.traits["idle closing"] and chance.random() < 0.6:
            wire.closed_at = done + chance.uniform(8.0, 40.0)
    _plan_life(host, client, plan, learned + chance.uniform(0.001, 0.05))


def _plan_life(host: Host, client: Client, plan: Plan, at: float) -> None:
    chance = host.chance
    for broker in plan.uses:
        later = max(plan.sends_from, chance.choice((0.0, 0.0, 0.0, chance.uniform(0, 20))))
        host.at(at + later, lambda moment, b=broker: _use(host, client, b, moment))
    for broker in plan.knows:
        later = chance.choice((0.1, chance.uniform(0, 30)))
        host.at(at + later, lambda moment, b=broker: _know(host, client, b, moment))
    if plan.coordinator is not None:
        host.at(at, lambda moment: _coordinate(host, client, moment))
    if plan.refresh_seconds is not None:
        host.at(at + plan.refresh_seconds, lambda moment: _refresh(host, client, moment))


def _bootstrap_node(host: Host, client: Client, broker: Broker, index: int) -> Node:
    remote, certificate = broker.at(client.port), broker.certificate
    if host.traits["load balancer"]:
        remote, certificate = Endpoint(LOAD_BALANCER, client.port), 0
    node_id = f"-{index + 1}"
    if client.library is not Library.JAVA:
        node_id = f"sasl_ssl://{host_name(broker.broker_id)}:{client.port}/bootstrap"
    node = Node(client, node_id, Role.BOOTSTRAP, None, remote, certificate)
    _name_remote(host, node, broker.broker_id)
    client.nodes[node_id] = node
    return node


def _name_remote(host: Host, node: Node, broker_id: int) -> None:
    """Name a node's address as librdkafka does; Java names none."""
    if node.client.library is Library.JAVA:
        return
    node.remote_name = str(node.remote)
    if host.traits["host names"] and node.remote.address != LOAD_BALANCER:
        node.remote_name = f"{host_name(broker_id)}:{node.remote.port}"


def _answer(client: Client) -> int:
    """Return the size of the answer that every connection begins with."""
    return 468 if client.version == OLD_JAVA else 866


def _learned(host: Host, client: Client, node_id: str, role: Role, broker_index: int) -> Node:
    known = client.nodes.get(node_id)
    if known is not None:
        return known
    broker = host.brokers[broker_index]
    remote = broker.at(client.port)
    node = Node(client, node_id, role, broker.broker_id, remote, broker.certificate)
    _name_remote(host, node, broker.broker_id)
    client.nodes[node_id] = node
    return node


def _open(host: Host, node: Node, at: float, more: tuple[str, ...] = ()) -> float:
    """Connect a node and greet; return when it can go on."""
    client = node.client
    is_bootstrap = node.role is Role.BOOTSTRAP
    wire = host.sockets.connect(node, at, is_bootstrap=is_bootstrap)
    return doing.greet(node, host.plans[client][1], wire.ready_at, _answer(client), more)


def _is_over(client: Client, at: float) -> bool:
    return at > client.ended_at - 1.0


def _by_id(host: Host, client: Client, broker_index: int) -> Node:
    broker_id = str(host.brokers[broker_index].broker_id)
    return _learned(host, client, broker_id, doing.learned_role(client.kind), broker_index)


def _use(host: Host, client: Client, broker_index: int, at: float) -> None:
    """Send records to a broker, or fetch them, or administer it."""
    if _is_over(client, at):
        return
    plan = host.plans[client][1]
    node = _by_id(host, client, broker_index)
    done = node.busy_until if node.wire is not None else _open(host, node, at)
    node.make_talk = _TALKS[client.kind]
    node.talk = node.make_talk(node, plan, host.chance)
    node.next_at = max(at, done) + 0.001
    if plan.steady and client.kind is ClientKind.PRODUCER:
        node.next_at = plan.beat(node.next_at)
    if plan.sends_until < NEVER:
        host.at(at + plan.sends_until, lambda _moment: fall_silent(node))


def _know(host: Host, client: Client, broker_index: int, at: float) -> None:
    """Ask a broker for metadata, once."""
    if _is_over(client, at):
        return
    node = _by_id(host, client, broker_index)
    if node.wire is None:
        _open(host, node, at, ("metadata",) if host.chance.random() < 0.7 else ())


def _coordinate(host: Host, client: Client, at: float) -> None:
    plan, is_java = host.plans[client][1], client.library is Library.JAVA
    index = plan.coordinator
    assert index is not None
    broker_id = host.brokers[index].broker_id
    if client.kind is ClientKind.CONSUMER:
        name = doing.coordinator_id(client.version, broker_id) if is_java else "GroupCoordinator"
        node = _learned(host, client, name, Role.COORDINATOR, index)
        more, make = ("join", "sync", "offsets"), doing.heartbeats
    else:
        # Java's transaction coordinator is a plain node, which may carry records as well.
        node = (
            _by_id(host, client, index)
            if is_java
            else _learned(host, client, "TxnCoordinator", Role.TRANSACTION, index)
        )
        more, make = ("producer",), doing.transactions
    if node.wire is not None or _is_over(client, at):
        return
    done = _open(host, node, at, more)
    node.make_talk = make
    node.talk, node.next_at = make(node, plan, host.chance), done + 0.5


def _refresh(host: Host, client: Client, at: float) -> None:
    """Ask any learned node for metadata: the least loaded one is asked."""
    if _is_over(client, at) or client.stalled_until > at:
        return
    plan = host.plans[client][1]
    nodes = [
        node for node in client.nodes.values()
        if node.role is not Role.BOOTSTRAP and node.wire is not None
        and node.wire.ready_at < at < node.wire.closed_at - 1.5
    ]  # fmt: skip
    if nodes:
        node = host.chance.choice(nodes)
        begins = max(at, node.busy_until) + 0.0005
        doing.ask(node, begins, 18 + len(client.client_id), plan.metadata.size, 0.003)
        node.next_at = max(node.next_at, node.busy_until)
    host.at(at + plan.refresh_seconds, lambda moment: _refresh(host, client, moment))


def reopen(host: Host, node: Node, at: float) -> None:
    """Connect a node again. Totals go on, but librdkafka may have made its broker anew."""
    client = node.client
    if _is_over(client, at):
        return
    if client.library is not Library.JAVA and host.chance.random() < 0.3:
        node = _made_anew(host, node, at)
    more = ("metadata",) if node.role is Role.BOOTSTRAP else ()
    done = _open(host, node, at, more)
    if node.talk is not None and node.next_at < NEVER:
        node.next_at = max(node.next_at, done + 0.001)


def _made_anew(host: Host, old: Node, at: float) -> Node:
    client = old.client
    node = Node(client, old.node_id, old.role, old.broker_id, old.remote, old.certificate)
    node.remote_name, node.make_talk, node.next_at = old.remote_name, old.make_talk, old.next_at
    if node.make_talk is not None:
        node.talk = node.make_talk(node, host.plans[client][1], host.chance)
    old.gone_at, old.next_at = at, NEVER
    client.nodes[node.node_id] = node
    return node


def fall_silent(node: Node) -> None:
    node.next_at = NEVER
