from __future__ import annotations

import asyncio
import base64
from concurrent.futures import Executor, Future

import bcrypt
import pytest

from exporter.http.users import BusyError, Users, credentials_from_header


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


class Inline(Executor):
    """Runs at once, and remembers against which hashes passwords were checked."""

    def __init__(self):
        self.checked = []

    def submit(self, function, /, *args, **kwargs):
        self.checked.append(args[1])
        done = Future()
        done.set_result(function(*args, **kwargs))
        return done


class Never(Executor):
    def submit(self, *_, **__):
        return Future()


def header(text: str | bytes) -> str:
    return "Basic " + base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def accepted(users: Users, *given: tuple[str, bytes]) -> list[bool]:
    async def ask():
        return [await users.accept(*each, "10.0.0.1") for each in given]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(header("alice:secret"), ("alice", b"secret"), id="plain"),
        pytest.param(header("alice:a:b"), ("alice", b"a:b"), id="colon in the password"),
        pytest.param(
            header("älice:ö").replace("Basic", "BASIC"), ("älice", "ö".encode()), id="utf-8"
        ),
        pytest.param(header(b"a:\xff"), ("a", b"\xff"), id="any password"),
        pytest.param(header("alice"), None, id="no colon"),
        pytest.param(header(b"\xff:a"), None, id="user is no text"),
        pytest.param("Basic ???", None, id="no base64"),
        pytest.param("Bearer abc", None, id="other scheme"),
        pytest.param("", None, id="none"),
        pytest.param("Basic " + "A" * 2000, None, id="too long"),
    ],
)
def test_the_header_is_read_or_refused(value, expected):
    assert credentials_from_header(value) == expected


def test_the_right_password_opens_and_the_wrong_one_does_not():
    users = Users({"alice": hashed("secret")}, Inline())
    given = [("alice", b"secret"), ("alice", b"wrong"), ("bob", b"secret"), ("", b"")]
    assert accepted(users, *given) == [True, False, False, False]


@pytest.mark.parametrize("password", [b"\0", b"a\0b", b"x" * 5000, b"\xff\xfe"])
def test_no_password_raises(password):
    users = Users({"alice": hashed("secret")}, Inline())
    assert accepted(users, ("alice", password)) == [False]


def test_a_long_password_is_cut_as_htpasswd_cuts_it():
    users = Users({"alice": hashed("x" * 72)}, Inline())
    assert accepted(users, ("alice", b"x" * 100)) == [True]


def test_a_right_password_is_checked_once():
    executor = Inline()
    users = Users({"alice": hashed("secret")}, executor)
    assert accepted(users, *[("alice", b"secret")] * 5) == [True] * 5
    assert len(executor.checked) == 1


def test_wrong_passwords_do_not_push_out_the_right_one():
    executor = Inline()
    users = Users({"alice": hashed("secret")}, executor)
    guesses = [("alice", b"%d" % number) for number in range(150)]
    accepted(users, ("alice", b"secret"), *guesses)
    before = len(executor.checked)
    assert accepted(users, ("alice", b"secret")) == [True]
    assert len(executor.checked) == before


def test_an_unknown_user_costs_as_much_as_a_known_one():
    executor = Inline()
    users = Users({"alice": hashed("a", 4), "bob": hashed("b", 5)}, executor)
    accepted(users, *[(f"nobody{number}", b"x") for number in range(20)])
    assert {stored[:7] for stored in executor.checked} == {"$2b$04$", "$2b$05$"}


def test_an_unknown_user_always_meets_the_same_cost():
    executor = Inline()
    users = Users({"alice": hashed("a", 4), "bob": hashed("b", 5)}, executor)
    accepted(users, *[("nobody", b"%d" % number) for number in range(10)])
    assert len(set(executor.checked)) == 1


def test_too_many_at_once_are_told_to_come_back():
    users = Users({"alice": hashed("secret")}, Never())

    async def ask():
        waiting = [
            asyncio.create_task(users.accept("alice", b"%d" % n, f"10.0.0.{n}")) for n in range(20)
        ]
        await asyncio.sleep(0)
        busy = [task for task in waiting if task.done()]
        for task in waiting:
            task.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        return len(busy), sum(isinstance(each, BusyError) for each in results)

    assert asyncio.run(ask()) == (4, 4)


def test_guesses_from_one_address_leave_places_for_others():
    users = Users({"alice": hashed("secret")}, Never())

    async def ask():
        guesses = [
            asyncio.create_task(users.accept("alice", b"%d" % n, "10.0.0.66")) for n in range(100)
        ]
        operator = asyncio.create_task(users.accept("alice", b"secret", "10.0.0.7"))
        await asyncio.sleep(0)
        is_waiting = not operator.done()
        for task in (operator, *guesses):
            task.cancel()
        results = await asyncio.gather(operator, *guesses, return_exceptions=True)
        return is_waiting, sum(isinstance(each, BusyError) for each in results)

    assert asyncio.run(ask()) == (True, 98)


def test_no_users_means_nobody_is_asked():
    assert not Users({}, Inline())
