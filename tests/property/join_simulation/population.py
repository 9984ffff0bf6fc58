"""Who is on the host: processes, clients, twins, a hostile sender, a page of another host."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.model import ClientKind, Library, Owner, OwnerRung
from tests.property.join_simulation import lives
from tests.property.join_simulation.clients import plan_of, twin_of
from tests.property.join_simulation.connecting import OLD_JAVA
from tests.property.join_simulation.host import NEVER, Process
from tests.property.join_simulation.security import security_of
from tests.property.join_simulation.wires import Client

if TYPE_CHECKING:
    from tests.property.join_simulation.clients import Plan
    from tests.property.join_simulation.host import Host

JAVA_VERSIONS = ("3.9.2", "3.9.2", "4.4.0", OLD_JAVA)
LIBRDKAFKA_VERSION = "2.16.0"
STATISTICS = "unix:statistics"


def populate(host: Host) -> None:
    """Make the processes and plan the lives of their clients."""
    chance, traits = host.chance, host.traits
    for number in range(chance.randint(2, 3) if traits["several processes"] else 1):
        process = add_process(host, number)
        for client in range(chance.choice((1, 2, 2, 3, 4, 6))):
            add_client(host, process, client)
        if traits["twins"] or traits["same names"]:
            _make_twins(host, process)
        if traits["probes"]:
            _make_probe(host, process)
    if traits["foreign page"]:
        _make_replica(host, host.processes[0])
    # Under a uid that both share, nobody can say whose sockets are the sender's.
    if traits["hostile sender"] and not traits["shared uid"]:
        _make_impostor(host, host.processes[0])


def add_process(host: Host, number: int, library: Library | None = None) -> Process:
    """Add a process without clients."""
    chance, traits = host.chance, host.traits
    pid = 1_000 + 17 * number
    if library is None:
        wanted = traits["librdkafka"] and (number == 0 or chance.random() < 0.5)
        library = Library.LIBRDKAFKA if wanted else Library.JAVA
    is_java = library is Library.JAVA
    owner = Owner(
        key=f"pid:{pid}@1", rung=OwnerRung.PROC_FD, name="java" if is_java else "python", pid=pid,
        started=1.0, library=library,
    )  # fmt: skip
    if traits["shared uid"]:
        owner = Owner(key="uid:1000", rung=OwnerRung.UID, name="1000", uid=1000)
    order = list(range(len(host.brokers)))
    chance.shuffle(order)
    process = Process(
        pid=pid, owner=owner, source=f"app-{number}" if is_java else STATISTICS, library=library,
        version=chance.choice(JAVA_VERSIONS) if is_java else LIBRDKAFKA_VERSION,
        sender_pid=None if traits["unknown sender"] else pid, list_order=order,
    )  # fmt: skip
    host.processes.append(process)
    return process


def add_client(host: Host, process: Process, number: int) -> None:
    """Add a client that begins soon."""
    chance = host.chance
    plan = plan_of(chance, process, range(len(host.brokers)), host.traits)
    letter = "abcdefgh"[number % 8]
    client_id = chance.choice(
        (f"{plan.kind}-{number}", f"{letter * chance.randint(1, 9)}-{number}")
    )
    if plan.kind is ClientKind.ADMIN and chance.random() < 0.6:
        client_id = f"adminclient-{number}"
    later = chance.choice((0.0, 0.0, chance.uniform(0, 25)))
    start(host, process, plan, client_id, host.now + later)


def _make_twins(host: Host, process: Process) -> None:
    """Add clients with equal traffic, under names of equal length."""
    chance = host.chance
    client = chance.choice(process.clients)
    plan = twin_of(host.plans[client][1], chance)
    for number in range(chance.choice((1, 1, 2, 4))):
        name = client.client_id[:-1] + "789abcd"[number]
        if host.traits["same names"] and process.library is Library.JAVA:
            # Its rows take the place of the other's on the page.
            name = client.client_id
        at = client.started_at + chance.choice((0.0, 1.0, chance.uniform(0, 10)))
        twin = start(host, process, plan, name, at)
        if name == client.client_id:
            twin.hidden = client.hidden


def _make_probe(host: Host, process: Process) -> None:
    """Add what only connects: a health check that keeps its connection, of which no page tells."""
    nothing = plan_of(host.chance, process, range(len(host.brokers)), host.traits)
    plan = replace(nothing, uses=(), knows=(), coordinator=None, refresh_seconds=None, greets=False)
    start(host, process, plan, "probe", host.now + host.chance.uniform(0, 30)).hidden = True


def _make_replica(host: Host, process: Process) -> None:
    """Add the page of a process on another host that runs the same clients."""
    other = add_process(host, len(host.processes), process.library)
    other.is_here, other.sender_pid = False, None
    other.version = process.version
    for client in [each for each in process.clients if host.plans[each][1].greets]:
        plan = host.plans[client][1]
        uses = plan.uses or (0,)
        plan = replace(plan, uses=uses, rate=max(plan.rate, 0.5), sends_from=0.0, sends_until=NEVER)
        # Nothing keeps two hosts in step: they start apart, and their clocks' beats differ.
        plan = replace(plan, steady=False)
        start(host, other, plan, client.client_id, host.now + host.chance.uniform(0.2, 9.0))


def _make_impostor(host: Host, victim: Process) -> None:
    """Add a process that posts statistics in the name of another's clients."""
    process = add_process(host, len(host.processes), Library.LIBRDKAFKA)
    process.sender_pid = process.pid
    if host.chance.random() < 0.7:
        add_client(host, process, 0)
        process.clients[0].hidden = True
    if victim.library is not Library.JAVA:
        victim.sender_pid = victim.pid
    elif host.chance.random() < 0.5:
        # Nobody else tells of the victim's clients.
        for client in victim.clients:
            client.hidden = True
    process.victim = victim


def start(host: Host, process: Process, plan: Plan, client_id: str, at: float) -> Client:
    """Let a client begin at some moment from now on."""
    traits = host.traits
    is_second = host.profile == "mixed" and host.chance.random() < 0.5
    # What decides on a process's TLS is the same for all its clients.
    decides = random.Random(f"{host.profile} {host.seed} {process.pid}")
    security = security_of("plaintext" if is_second else host.profile, process.library, decides)
    client = Client(
        client_id=client_id, kind=plan.kind, library=process.library, version=plan.version,
        security=security, port=9092 if host.profile == "plaintext" or is_second else 9093,
        group=next(host.groups), started_at=at,
        hidden=traits["hidden clients"] and host.chance.random() < 0.3,
        is_here=process.is_here, full_buffer=traits["full buffers"],
        largest_answer=plan.metadata.size,
    )  # fmt: skip
    if process.library is not Library.JAVA:
        client.instance = f"rdkafka#{plan.kind}-{client.group}@{at:.6f}"
    host.plans[client] = process, plan
    process.clients.append(client)
    host.at(at, lambda moment: lives.begin(host, client, moment))
    return client
