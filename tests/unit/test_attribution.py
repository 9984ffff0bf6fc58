"""The join as a whole, on small processes with hand-made numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.attribution import Attributor
from exporter.core.join_laws import Bracket
from exporter.core.join_learning import learn_handshakes
from exporter.core.join_memory import Socket
from exporter.core.join_state import SourceState
from exporter.core.tracker import TrackedConnection
from exporter.model import (
    ClientKind,
    ClientReading,
    Confidence,
    Endpoint,
    JoinSample,
    KernelReading,
    Library,
    NodeReading,
    Owner,
    OwnerRung,
    ReadMethod,
    Role,
    SocketReading,
    SourceReading,
    TcpInfo,
    TcpState,
)

APP = Owner(key="pid:1", rung=OwnerRung.PROC_FD, name="java", pid=1)
OTHER = Owner(key="pid:2", rung=OwnerRung.PROC_FD, name="java", pid=2)
BROKER = {number: Endpoint(f"10.0.0.{number}", 9092) for number in (1, 2, 3)}


class Scene:
    """A process with one client, and what was read of both so far."""

    def __init__(self, kind=ClientKind.PRODUCER, library=Library.JAVA):
        self.join = Attributor()
        self.kind, self.library = kind, library
        self.nodes, self.sockets = {}, {}
        self.at = 10.0

    def node(self, node_id, out, incoming, requests=1, **more):
        role = Role.BOOTSTRAP if node_id.startswith("-") else Role.DATA
        broker = None if role is Role.BOOTSTRAP else int(node_id)
        self.nodes[node_id] = NodeReading(
            node_id=node_id, role=role, broker_id=broker, outgoing_bytes=out,
            incoming_bytes=incoming, requests=requests, responses=requests, **more,
        )  # fmt: skip

    def socket(self, cookie, out, incoming, *, broker=1, owner=APP, opened_at=None):
        known = self.sockets.get(cookie)
        opened_at = known[3] if known else (self.at if opened_at is None else opened_at)
        self.sockets[cookie] = (out, incoming, BROKER[broker], opened_at, owner)

    def read(self, times=1):
        for _ in range(times):
            self.at += 2.0
            looks = tuple(
                SocketReading(
                    at=self.at, cookie=cookie, local=Endpoint("10.9.9.9", cookie), remote=remote,
                    tcp_state=TcpState.ESTABLISHED, inode=cookie, uid=0, cgroup_id=None,
                    receive_queue=0, send_queue=0, retransmits=0,
                    info=TcpInfo(bytes_acked=out + 1, bytes_received=incoming),
                )
                for cookie, (out, incoming, remote, _opened, _owner) in self.sockets.items()
            )  # fmt: skip
            kernel = KernelReading(at=self.at, method=ReadMethod.SOCK_DIAG, sockets=looks)
            tracked = {
                look.cookie: TrackedConnection(
                    reading=look, owner=self.sockets[look.cookie][4],
                    opened_at=self.sockets[look.cookie][3], age_is_exact=True,
                    first_for_owner=False, last_activity_at=self.at,
                )
                for look in looks
            }  # fmt: skip
            client = ClientReading(
                client_id="orders", kind=self.kind, library=self.library,
                nodes=tuple(self.nodes.values()),
            )  # fmt: skip
            reading = SourceReading(
                source="app", begun_at=self.at, ended_at=self.at, clients=(client,)
            )
            changed = self.join.update(
                JoinSample(before=kernel, reading=reading, after=kernel), tracked
            )
        return changed

    def answer(self):
        return {
            cookie: known.node.node_id for cookie, known in sorted(self.join.attributions.items())
        }


def test_equal_totals_are_one_connection():
    scene = Scene()
    scene.node("-1", 129, 1028)
    scene.node("1", 500, 700)
    scene.socket(7, 500, 700)
    scene.socket(8, 129, 1028)
    assert sorted(scene.read()) == [7, 8]
    assert scene.answer() == {7: "1", 8: "-1"}
    assert scene.join.attributions[7].confidence is Confidence.EXACT
    assert scene.read() == []


def test_equal_nodes_are_given_with_their_equals_until_they_differ():
    scene = Scene()
    scene.node("1", 100, 200)
    scene.node("2", 100, 200)
    scene.socket(7, 100, 200, broker=1)
    scene.socket(8, 100, 200, broker=2)
    scene.read()
    assert all(len(known.equals) == 1 for known in scene.join.attributions.values())
    scene.node("2", 150, 240, 2)
    scene.socket(8, 150, 240, broker=2)
    scene.read(3)
    assert scene.answer() == {7: "1", 8: "2"}
    assert all(known.equals == () for known in scene.join.attributions.values())


def test_a_known_broker_address_tells_equals_apart():
    scene = Scene()
    scene.node("1", 300, 400)
    scene.socket(5, 300, 400, broker=1)
    scene.read()
    other = Scene()
    other.join, other.at, other.sockets = scene.join, scene.at, dict(scene.sockets)
    other.nodes = dict(scene.nodes)
    other.node("2", 100, 200)
    other.node("-1", 100, 200)
    other.socket(7, 100, 200, broker=2)
    other.socket(8, 100, 200, broker=1)
    other.read(2)
    # Broker 1 is node 1; node 2 is not known to be there, so only the bootstrap may be.
    assert other.answer() == {5: "1", 7: "2", 8: "-1"}


def test_a_node_goes_on_counting_over_a_reconnect():
    scene = Scene()
    scene.node("1", 500, 700, 5)
    scene.socket(7, 500, 700, opened_at=0.0)
    scene.read(3)
    del scene.sockets[7]
    scene.join.forget([7])
    scene.read(2)
    scene.socket(9, 60, 90)
    scene.node("1", 560, 790, 6)
    scene.read()
    assert scene.answer() == {9: "1"}


def test_a_socket_that_the_metrics_do_not_know_stays_unclaimed():
    scene = Scene()
    scene.node("1", 500, 700, 5)
    scene.socket(7, 500, 700)
    scene.socket(8, 333, 444)
    scene.read(6)
    assert scene.answer() == {7: "1"}
    assert not scene.join.is_claimable(8)


def test_a_young_socket_may_still_be_claimed():
    scene = Scene()
    scene.node("1", 500, 700, 5)
    scene.socket(7, 500, 700)
    scene.socket(8, 333, 444)
    scene.read()
    assert scene.join.is_claimable(8)


def test_of_two_sockets_that_fit_one_node_alike_one_is_left_over():
    scene = Scene()
    scene.node("-1", 44, 866, 2)
    scene.socket(7, 44, 866)
    scene.read(3)
    scene.socket(8, 44, 866)
    scene.read(2)
    free = {7, 8} - scene.answer().keys()
    assert len(free) == 1
    assert scene.join.is_claimable(*free)
    scene.read(3)
    assert scene.answer().keys() == {7, 8} - free
    assert not scene.join.is_claimable(*free)


def test_a_twin_that_takes_the_metrics_over_leaves_the_other_one_outlived():
    scene = Scene()
    scene.node("1", 500, 700, 5)
    scene.node("-1", 91, 1085, 3)
    scene.socket(6, 500, 700)
    scene.socket(7, 91, 1085)
    scene.read(3)
    assert scene.answer() == {6: "1", 7: "-1"}
    scene.socket(8, 67, 975)
    scene.node("-1", 67, 975, 2)
    scene.read(2)
    assert scene.answer() == {6: "1", 7: "-1", 8: "-1"}
    assert not scene.join.outlived
    scene.read(3)
    assert scene.join.outlived == {7}
    assert not scene.join.is_claimable(7)


def test_a_client_that_is_gone_leaves_its_sockets_their_name():
    scene = Scene()
    scene.node("1", 500, 700, 5)
    scene.socket(7, 500, 700)
    scene.read(3)
    scene.nodes.clear()
    scene.node("2", 90, 100, 1)
    scene.socket(8, 90, 100)
    scene.read(6)
    assert scene.answer() == {7: "1", 8: "2"}
    assert not scene.join.outlived


def test_without_free_nodes_there_is_no_law_to_search_for():
    state = SourceState()
    socket = Socket(7, Endpoint("10.0.0.1", 9092), 0.0)
    for at in (1.0, 2.0):
        socket.history.note(at, Bracket(900, 900, 900, 900))
    socket.reads = 9
    assert learn_handshakes(state, 9092, [socket], []) == []


def test_before_a_handshake_is_known_no_socket_is_called_unclaimed():
    scene = Scene(ClientKind.ADMIN)
    scene.node("1", 500, 700, 5)
    scene.socket(7, 2000, 5000)
    scene.read(12)
    assert scene.answer() == {}
    assert scene.join.is_claimable(7)


def test_two_contradictions_part_and_one_does_not():
    scene = Scene()
    scene.node("1", 500, 700, 5)
    scene.socket(7, 500, 700)
    scene.read()
    scene.socket(7, 540, 730)
    scene.read()
    assert scene.answer() == {7: "1"}
    scene.socket(7, 580, 760)
    scene.read()
    assert scene.answer() == {}


def test_a_ghost_gives_its_node_back():
    scene = Scene()
    scene.node("1", 500, 700, 5)
    scene.socket(7, 500, 700)
    scene.read()
    scene.join.release(7)
    ((node, joined),) = scene.join.nodes_of("app").values()
    assert (node.node_id, joined) == ("1", False)
    assert 7 in scene.join.attributions


def test_the_sockets_of_another_process_are_left_alone():
    scene = Scene()
    for number, node_id in enumerate(("1", "2", "3"), start=1):
        scene.node(node_id, 500 + number, 700, 5)
        scene.socket(number, 500 + number, 700, broker=number)
    scene.socket(8, 501, 700, owner=OTHER)
    scene.read(2)
    assert scene.answer() == {1: "1", 2: "2", 3: "3"}
    assert 8 not in scene.join.attributions


def tls(scene, cookie, node_id, counts, handshake, **more):
    out, incoming, requests = counts
    scene.node(node_id, out, incoming, requests)
    scene.socket(
        cookie,
        out + 38 * requests + handshake[0],
        incoming + 38 * requests + handshake[1],
        **more,
    )


def test_idle_sockets_under_tls_agree_on_their_handshake():
    """As read of a consumer: bootstrap and heartbeat, full handshakes and one resumed."""
    full, resumed = (536, 4212), (2540, 2248)
    scene = Scene(ClientKind.ADMIN)
    for beat in range(5):
        tls(scene, 1, "-1", (54, 866, 1), full, broker=1)
        tls(scene, 2, "-2", (129, 1028, 3), full, broker=2)
        tls(scene, 3, "2", (86, 985, 2), resumed, broker=2)
        tls(scene, 4, "1", (3041 + 109 * beat, 1951 + 14 * beat, 22 + beat), full, broker=1)
        tls(scene, 5, "3", (1041 + 93 * beat, 951 + 21 * beat, 12 + beat), resumed, broker=3)
        scene.read()
    assert scene.answer() == {1: "-1", 2: "-2", 3: "2", 4: "1", 5: "3"}
    assert not any(known.equals for known in scene.join.attributions.values())


@pytest.mark.parametrize("library", list(Library))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_hostile_figures_never_raise(library, data):
    numbers = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.sampled_from([0, 1, 100]))
    scene = Scene(library=library)
    for _ in range(data.draw(st.integers(1, 5))):
        for node_id in data.draw(st.lists(st.sampled_from(["-1", "1", "2", "3"]), max_size=4)):
            name = data.draw(st.sampled_from([None, "", "x", "10.0.0.1:9092", "[::1]:99999"]))
            scene.node(node_id, *data.draw(st.tuples(numbers, numbers, numbers)), remote_name=name)
        for cookie in data.draw(st.lists(st.integers(1, 4), max_size=4)):
            figures = data.draw(st.tuples(st.integers(0, 2**65), st.integers(0, 2**65)))
            scene.socket(cookie, *figures, broker=data.draw(st.integers(1, 3)))
        scene.read()
        if data.draw(st.booleans()):
            scene.join.forget(data.draw(st.lists(st.integers(1, 4))))


def test_a_process_that_is_replaced_by_its_like_is_known_again():
    """What the new one's bootstrap connection counts is just what the old one's did."""
    scene = Scene()
    scene.node("-1", 188, 1130)
    scene.node("1", 5000, 3000)
    scene.socket(1, 188, 1130)
    scene.socket(2, 5000, 3000)
    scene.read(2)
    scene.join.forget((1, 2))
    scene.sockets.clear()
    scene.node("1", 500, 300)
    scene.socket(3, 188, 1130, owner=OTHER)
    scene.socket(4, 500, 300, owner=OTHER)
    scene.read()
    assert {c: scene.join.attributions[c].node.node_id for c in (3, 4)} == {3: "-1", 4: "1"}
