"""Names to addresses, with name servers that are slow, dead or change their mind."""

from __future__ import annotations

import threading

import pytest

from exporter.errors import SourceUnavailableError
from exporter.http import names
from exporter.http.names import NameAnswer, Resolver, addresses_of, addresses_within


class NameServer:
    """Answers what it is told; without an answer it hangs until it is let go."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []
        self.let_go = threading.Event()

    def __call__(self, host):
        self.asked.append(host)
        answer = self.answers.get(host)
        if answer is None:
            self.let_go.wait(30)
            raise SourceUnavailableError("let go")
        if isinstance(answer, str):
            raise SourceUnavailableError(answer)
        return answer


def wait_for_lookups():
    """Wait for the threads of lookups, the ones of other tests too: they share what is pending."""
    for thread in threading.enumerate():
        if thread.name == "brokerwire-lookup":
            thread.join(30)


@pytest.fixture
def hanging():
    wait_for_lookups()
    server = NameServer()
    yield server
    server.let_go.set()
    wait_for_lookups()


def resolver(server, *hosts):
    return Resolver(
        hosts, interval_seconds=30, timeout_seconds=0.05, lookup=server, clock=lambda: 7.0
    )


def test_a_name_of_this_host_has_its_address():
    assert "127.0.0.1" in addresses_of("localhost")


@pytest.mark.parametrize("host", ["no such host", "x" * 300, "a..b", "nowhere.invalid"])
def test_what_is_no_name_is_unavailable(host):
    with pytest.raises(SourceUnavailableError, match="cannot look up"):
        addresses_of(host)


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
    ],
)
def test_an_address_is_its_own_answer_and_nobody_is_asked(literal, expected):
    server = NameServer()
    assert (expected,) == addresses_within(literal, 1.0, server)
    assert server.asked == []


def test_a_name_server_that_hangs_is_given_up(hanging):
    with pytest.raises(SourceUnavailableError, match=r"'slow': no answer after 0\.1 s"):
        addresses_within("slow", 0.05, hanging)


def test_lookups_that_hang_do_not_pile_up(hanging):
    for _ in range(names.MAX_PENDING):
        with pytest.raises(SourceUnavailableError, match="no answer"):
            addresses_within("slow", 0.0, hanging)
    with pytest.raises(SourceUnavailableError, match="earlier lookups still wait"):
        addresses_within("slow", 0.0, hanging)
    assert len(hanging.asked) == names.MAX_PENDING


def test_a_lookup_that_ends_makes_room(hanging):
    test_lookups_that_hang_do_not_pile_up(hanging)
    hanging.let_go.set()
    wait_for_lookups()
    assert addresses_within("b", 5.0, NameServer(b=("10.0.0.1",))) == ("10.0.0.1",)


def test_a_resolver_answers_with_sets():
    server = NameServer(b1=("10.0.0.1", "10.0.0.2"), b2=("10.0.0.3",))
    resolving = resolver(server, "b1", "b2", "b1", "10.9.9.9")
    assert resolving.addresses() == {}
    resolving.resolve_once()
    assert {
        "b1": frozenset({"10.0.0.1", "10.0.0.2"}),
        "b2": frozenset({"10.0.0.3"}),
        "10.9.9.9": frozenset({"10.9.9.9"}),
    } == resolving.addresses()
    assert server.asked == ["b1", "b2"]


def test_a_name_that_fails_keeps_its_last_good_answer_and_shows_why():
    server = NameServer(b1=("10.0.0.1",))
    resolving = resolver(server, "b1")
    resolving.resolve_once()
    server.answers["b1"] = "cannot look up 'b1': refused"
    resolving.resolve_once()
    resolving.resolve_once()
    assert {"b1": frozenset({"10.0.0.1"})} == resolving.addresses()
    assert (
        NameAnswer(
            addresses=frozenset({"10.0.0.1"}),
            answered_at=7.0,
            error="cannot look up 'b1': refused",
            failures=2,
        )
        == resolving.answers()["b1"]
    )


def test_a_good_answer_ends_the_failure():
    server = NameServer(b1="refused")
    resolving = resolver(server, "b1")
    resolving.resolve_once()
    assert resolving.addresses() == {}
    server.answers["b1"] = ("10.0.0.9",)
    resolving.resolve_once()
    answer = resolving.answers()["b1"]
    assert (None, 0, frozenset({"10.0.0.9"})) == (answer.error, answer.failures, answer.addresses)


def test_one_name_that_hangs_costs_the_others_only_its_deadline(hanging):
    hanging.answers["b2"] = ("10.0.0.2",)
    resolving = resolver(hanging, "slow", "b2")
    resolving.resolve_once()
    assert {"b2": frozenset({"10.0.0.2"})} == resolving.addresses()


class Clock:
    now = 7.0

    def __call__(self):
        return self.now


def asking(clock, lookup, **options):
    return Resolver(interval_seconds=30, lookup=lookup, clock=clock, **options)


def test_names_of_one_asker_leave_room_for_those_of_others():
    resolving = asking(Clock(), lambda _host: ("10.0.0.1",), most_of_one=3)
    for number in range(names.MAX_NAMES):
        resolving.ask(f"invented-{number}", "attacker")
    resolving.ask("broker", "client")
    resolving.resolve_once()
    assert set(resolving.addresses()) == {"invented-0", "invented-1", "invented-2", "broker"}


def test_names_that_nobody_asks_for_any_more_make_room_for_new_ones():
    clock = Clock()
    resolving = asking(clock, lambda _host: ("10.0.0.1",))
    for number in range(names.MAX_NAMES + 5):
        resolving.ask(f"invented-{number}", "attacker")
    resolving.ask("invented-0", "client")
    clock.now += names.FORGET_SECONDS
    resolving.ask("invented-0", "client")
    clock.now += 1
    resolving.resolve_once()
    resolving.ask("broker", "client")
    resolving.resolve_once()
    assert set(resolving.addresses()) == {"invented-0", "broker"}


def test_a_name_that_clients_go_on_asking_for_stays():
    clock = Clock()
    resolving = asking(clock, lambda _host: ("10.0.0.1",))
    for _ in range(3):
        resolving.ask("broker", "client")
        resolving.resolve_once()
        clock.now += 0.9 * names.FORGET_SECONDS
    assert set(resolving.addresses()) == {"broker"}


def test_lookups_of_one_resolver_that_hang_keep_no_other_from_its_own(hanging):
    given = resolver(hanging, *(f"dead-{number}" for number in range(names.MAX_PENDING)))
    given.resolve_once()
    known = resolver(NameServer(broker=("10.0.0.1",)), "broker")
    known.resolve_once()
    assert set(known.addresses()) == {"broker"}


def test_a_resolver_runs_by_itself_and_stops():
    seen = threading.Event()

    def lookup(_host):
        seen.set()
        return ("10.0.0.1",)

    resolving = Resolver(["b1"], interval_seconds=3600, lookup=lookup)
    resolving.start()
    assert seen.wait(5)
    resolving.stop()
    assert not any(thread.name == "brokerwire-names" for thread in threading.enumerate())


def test_a_resolver_without_names_does_nothing():
    resolving = Resolver([], interval_seconds=1)
    resolving.start()
    resolving.stop()
    assert resolving.addresses() == {}
