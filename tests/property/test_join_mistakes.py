"""What a join has stated wrongly once, made by hand: it must not happen again.

Each scene holds every answer of every read against the truth (`Scene.take`).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.model import ClientKind, Library
from tests.property.join_scene import FULL, IMPOSTOR, JSSE, RESUMED, Scene

GROUPS = pytest.mark.parametrize("groups", [False, True], ids=["no groups", "groups"])


class Teachers:
    """Two admin clients whose growth shows what a full handshake with broker 1 weighs."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.nodes = []
        for number in (1, 2):
            client = scene.client(f"teacher-{number}", ClientKind.ADMIN)
            sent = (40 + number, 866), (70 * number, 300)
            self.nodes.append(scene.node(client, "1", 1, FULL, *sent))

    def talk(self) -> None:
        for number, node in enumerate(self.nodes):
            self.scene.exchange(node, 44, 90 + number)


@GROUPS
def test_a_handshake_that_no_joined_socket_shows_is_not_taken_to_be_absent(groups):
    """Two busy clients resumed their sessions with a broker; what one counts lies, with a full
    handshake, between the bounds of the other's socket, read after read."""
    scene = Scene(JSSE, groups=groups)
    teachers = Teachers(scene)
    one = scene.node(scene.client("first"), "1", 1, RESUMED, (51, 866))
    two = scene.node(scene.client("second"), "1", 1, RESUMED, (51, 866))
    # 20 more idle fetches of 59 bytes and a record: about what a resumed handshake sends more.
    for _ in range(20):
        scene.exchange(two, 59, 21)
    for _ in range(16):
        scene.at += 2.0
        teachers.talk()
        before = scene.look()
        for node in (one, two, one, two):
            scene.exchange(node, 59, 111, more_in=2)
        page = scene.page()
        for node in (one, two, one, two):
            scene.exchange(node, 59, 111, more_in=2)
        scene.take(before, page, scene.look())


@GROUPS
def test_clients_with_lists_in_another_order_are_not_exchanged(groups):
    """Where -1 is for one client says nothing of another's -1."""
    scene = Scene(groups=groups)
    first = scene.client("first")
    scene.node(first, "-1", 1, (0, 0), (51, 866), (31, 203))
    scene.node(first, "-2", 2, (0, 0), (51, 866), (44, 97))
    second = scene.client("second")
    scene.node(second, "-1", 2, (0, 0), (52, 866))
    scene.node(second, "-2", 1, (0, 0), (52, 866))
    scene.read(8)


@GROUPS
@pytest.mark.parametrize("more", [5, 11, 640])
def test_brokers_with_certificates_of_their_own_do_not_exchange_clients(groups, more):
    """A longer certificate and a shorter answer make two sockets equal; the handshake is known at one."""
    scene = Scene(JSSE, groups=groups)
    teachers = Teachers(scene)
    late, early = scene.client("late"), scene.client("soon")
    scene.node(early, "-1", 2, (FULL[0], FULL[1] + more), (51, 866), (30, 200))
    scene.node(late, "-1", 1, FULL, (51, 866), (30, 200 + more))
    for _ in range(8):
        teachers.talk()
        scene.read(2)


@GROUPS
def test_one_torn_page_does_not_exchange_two_nodes(groups):
    """One node wrote and had not counted, the other was busy: for one read one socket fits both."""
    scene = Scene(groups=groups)
    client = scene.client("orders", ClientKind.PRODUCER)
    one = scene.node(client, "1", 1, (0, 0), (51, 866), (30, 200))
    two = scene.node(client, "2", 2, (0, 0), (51, 866), (30, 200))
    scene.at += 2.0
    scene.exchange(two, 120, 62)
    before = scene.look()
    scene.exchange(one, 120, 62)
    scene.take(before, scene.page(stale={two: (120, 62)}), scene.look())
    scene.read(4)
    for _ in range(4):
        for node in (one, two):
            scene.exchange(node, 120, 62)
        scene.read()


def test_statistics_newer_than_the_last_look_are_no_other_sockets():
    """Both clients sent the same since the look: what one counts now the other's socket had then."""
    scene = Scene()
    one = scene.client("one", library=Library.LIBRDKAFKA)
    other = scene.client("two", library=Library.LIBRDKAFKA)
    mine = scene.node(one, "1", 1, (0, 0), (500, 700))
    its = scene.node(other, "1", 1, (0, 0), (500, 700), (60, 45))
    scene.at += 2.0
    before = scene.look()
    for node in (mine, its):
        scene.exchange(node, 60, 45)
    scene.take(before, scene.page(one), before)
    # Then the second sends no more, the first does: what they counted last is the same.
    scene.at += 2.0
    look = scene.look()
    scene.take(look, scene.page(other), look)
    scene.exchange(mine, 60, 45)
    for _ in range(4):
        for client in (one, other):
            scene.at += 1.0
            look = scene.look()
            scene.take(look, scene.page(client), look)


@GROUPS
def test_a_full_send_buffer_makes_no_other_node(groups):
    """The client has counted a record that the kernel does not have: as much as its twin has sent."""
    scene = Scene(JSSE, groups=groups)
    teachers = Teachers(scene)
    client = scene.client("orders", ClientKind.PRODUCER)
    one = scene.node(client, "1", 1, FULL, (51, 866), (30, 200))
    two = scene.node(client, "2", 2, FULL, (51, 866), (30, 200))
    for number in range(8):
        teachers.talk()
        for node in (one, two):
            scene.exchange(node, 15_000, 62, more_out=2)
        one.waits_out = 15_038 if number % 3 == 1 else 0
        scene.read(2)


@GROUPS
def test_a_metadata_answer_of_several_records_is_not_another_clients(groups):
    """One answer of two records weighs as much as another client's two answers of one."""
    scene = Scene(JSSE, groups=groups)
    teachers = Teachers(scene)
    large = scene.node(scene.client("large"), "-1", 1, FULL, (51, 866))
    scene.exchange(large, 100, 20_000, more_in=1)
    scene.node(scene.client("small"), "-1", 1, FULL, (51, 866), (30, 15_000), (32, 5_000))
    for _ in range(8):
        teachers.talk()
        scene.read(2)


@GROUPS
def test_a_bootstrap_connection_may_have_resumed_a_session(groups):
    """It was opened again beside the broker's own connection, which shook hands in full."""
    scene = Scene(JSSE, groups=groups)
    teachers = Teachers(scene)
    client = scene.client("orders")
    scene.node(client, "1", 1, FULL, (51, 866))
    scene.node(client, "-1", 1, RESUMED, (51, 866))
    for _ in range(8):
        teachers.talk()
        scene.read(2)


@pytest.mark.parametrize("has_sockets", [False, True], ids=["no sockets", "sockets"])
def test_a_process_cannot_name_the_sockets_of_another(has_sockets):
    """It posts the victim's own figures under a name that it chose; who sends is known."""
    scene = Scene()
    victim = scene.client("payments", library=Library.LIBRDKAFKA)
    one = scene.node(victim, "1", 1, (0, 0), (51, 866), (30, 200))
    two = scene.node(victim, "2", 2, (0, 0), (51, 866), (44, 97))
    if has_sockets:
        impostor = scene.client(IMPOSTOR, library=Library.LIBRDKAFKA, pid=2)
        scene.node(impostor, "1", 1, (0, 0), (77, 866))
    for _ in range(8):
        scene.exchange(one, 60, 45)
        scene.exchange(two, 61, 46)
        scene.at += 2.0
        look = scene.look()
        page = scene.page(victim)
        names = tuple(replace(client, client_id="orders") for client in page.clients)
        scene.take(look, replace(page, clients=names, sender_pid=2), look)
