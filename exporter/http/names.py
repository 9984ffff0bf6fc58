"""Name resolution with a deadline.

`getaddrinfo` knows no deadline: with a dead name server it blocks for as long as resolv.conf says.
So every lookup runs in a thread that may be left behind; `MAX_PENDING` bounds how many may be.
"""

from __future__ import annotations

__all__ = ["NameAnswer", "Resolver", "addresses_of", "addresses_within"]

import ipaddress
import queue
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exporter.errors import SourceUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    Lookup = Callable[[str], tuple[str, ...]]

MAX_PENDING = 8
MAX_NAMES = 1000
FORGET_SECONDS = 600.0
_pending = threading.BoundedSemaphore(MAX_PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameAnswer:
    """The last good answer for one name; `error` says why the newest try failed, if it did."""

    addresses: frozenset[str] = frozenset()
    answered_at: float | None = None
    error: str | None = None
    failures: int = 0
    """Tries that failed since the last good answer."""


def addresses_of(host: str) -> tuple[str, ...]:
    """Return the addresses of a name in the order to try them; blocks as long as the system likes.

    Raises:
        SourceUnavailableError: the name has no address, or nobody could be asked.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SourceUnavailableError(f"cannot look up {host!r}: {error.strerror}") from error
    except UnicodeError as error:
        # The IDNA codec rejects names that are too long or hold empty labels.
        raise SourceUnavailableError(f"cannot look up {host!r}: not a host name") from error
    return tuple(dict.fromkeys(_plain(str(entry[4][0])) for entry in found))


def addresses_within(
    host: str,
    seconds: float,
    lookup: Lookup = addresses_of,
    *,
    pending: threading.BoundedSemaphore = _pending,
) -> tuple[str, ...]:
    """Return the addresses of a name or an address, within a deadline.

    `pending` bounds the lookups that nobody waits for any more.

    Raises:
        SourceUnavailableError: no address, or no answer in time.
    """
    literal = _literal(host)
    if literal is not None:
        return (literal,)
    if not pending.acquire(blocking=False):
        raise SourceUnavailableError(
            f"cannot look up {host!r}: earlier lookups still wait; check the name servers"
        )
    answers: queue.SimpleQueue[tuple[str, ...] | SourceUnavailableError] = queue.SimpleQueue()
    worker = threading.Thread(
        target=_answer,
        args=(host, lookup, answers, pending),
        name="brokerwire-lookup",
        daemon=True,
    )
    worker.start()
    try:
        answer = answers.get(timeout=max(seconds, 0.0))
    except queue.Empty:
        raise SourceUnavailableError(
            f"cannot look up {host!r}: no answer after {seconds:.1f} s; check the name servers"
        ) from None
    if isinstance(answer, SourceUnavailableError):
        raise answer
    return answer


def _answer(
    host: str,
    lookup: Lookup,
    answers: queue.SimpleQueue[tuple[str, ...] | SourceUnavailableError],
    pending: threading.BoundedSemaphore,
) -> None:
    try:
        answers.put(lookup(host))
    except SourceUnavailableError as error:
        answers.put(error)
    finally:
        pending.release()


def _literal(host: str) -> str | None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return None
    return _plain(host)


def _plain(address: str) -> str:
    """Return an IPv4-mapped address as IPv4, as the socket readings have it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


@dataclass(slots=True)
class _Asked:
    """Who gave a name first, and when anybody last did."""

    asker: Hashable
    at: float


class Resolver:
    """Looks up a set of names again and again in a thread of its own.

    `hosts` are looked up for ever, names that are asked for until nobody asks for them any more.
    A name that cannot be looked up keeps its last good answer; `answers()` shows the failure.
    """

    def __init__(
        self,
        hosts: Iterable[str] = (),
        *,
        interval_seconds: float,
        timeout_seconds: float = 5.0,
        most_of_one: int = MAX_NAMES,
        lookup: Lookup = addresses_of,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_of_one = most_of_one
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._lookup = lookup
        self._clock = clock
        # Its own: dead names that a client gives must not keep others from being looked up.
        self._pending = threading.BoundedSemaphore(MAX_PENDING)
        self._answers: dict[str, NameAnswer] = {host: NameAnswer() for host in hosts}
        self._asked: dict[str, _Asked] = {}
        self._asked_by: Counter[Hashable] = Counter()
        self._lock = threading.Lock()
        self._stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerwire-names", daemon=True)

    def start(self) -> None:
        """Start looking up; the first answers come within the timeout of a lookup."""
        self._thread.start()

    def ask(self, host: str, asker: Hashable) -> None:
        """Look up this name too, while it is asked for; one without room is left unresolved."""
        with self._lock:
            if asked := self._asked.get(host):
                asked.at = self._clock()
                return
            is_full = len(self._asked) >= MAX_NAMES or self._asked_by[asker] >= self._most_of_one
            if is_full or host in self._answers:
                return
            self._asked[host] = _Asked(asker, self._clock())
            self._asked_by[asker] += 1
            self._answers[host] = NameAnswer()
        self._wake.set()

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """End the thread; one that waits for a name server is left to itself."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def resolve_once(self) -> None:
        """Look up every name once, and forget those that nobody asks for any more."""
        with self._lock:
            self._forget(self._clock() - FORGET_SECONDS)
            hosts = tuple(self._answers)
        for host in hosts:
            if self._stopped:
                return
            # A dict item is replaced as a whole, so a reader sees the old answer or the new one.
            self._answers[host] = self._resolve(host, self._answers[host])

    def addresses(self) -> dict[str, frozenset[str]]:
        """Return the last good answer of each name that ever had one."""
        return {
            host: answer.addresses
            for host, answer in self.answers().items()
            if answer.answered_at is not None
        }

    def answers(self) -> Mapping[str, NameAnswer]:
        """Return what is known of each name, failures included."""
        with self._lock:
            return dict(self._answers)

    def _forget(self, before: float) -> None:
        for host in [host for host, asked in self._asked.items() if asked.at < before]:
            asker = self._asked.pop(host).asker
            self._asked_by[asker] -= 1
            if not self._asked_by[asker]:
                del self._asked_by[asker]
            del self._answers[host]

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            self.resolve_once()
            self._wake.wait(self._interval_seconds)

    def _resolve(self, host: str, last: NameAnswer) -> NameAnswer:
        try:
            found = addresses_within(
                host, self._timeout_seconds, self._lookup, pending=self._pending
            )
        except SourceUnavailableError as error:
            return replace(last, error=str(error), failures=last.failures + 1)
        return NameAnswer(addresses=frozenset(found), answered_at=self._clock())
