"""Basic authentication against bcrypt hashes, which is slow: outside of the server's thread."""

from __future__ import annotations

__all__ = ["BusyError", "Users", "credentials_from_header"]

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

_REMEMBERED = 100
# Each takes the one worker some 50 ms or more; beyond that callers are told to come back.
_MOST_WAITING = 16
# Of one address: whoever guesses leaves places for those at other addresses.
_MOST_WAITING_OF_ONE = 2
# What bcrypt looks at; its library refuses longer ones, Go's and htpasswd cut them.
_PASSWORD_BYTES = 72
_LONGEST = 1024
# Any 53 characters of bcrypt's alphabet are a salt and a digest that no password is known for.
_NOBODY = "C6UzMDM.H6dfI/f/IKcEeO4nQ8YyKQd5mJEh2bX6eVJc2m1S0v3La"


class BusyError(Exception):
    """Too many passwords wait to be checked."""


def credentials_from_header(value: str) -> tuple[str, bytes] | None:
    """Read an Authorization header; None where it is not Basic or not well-formed."""
    scheme, _, encoded = value.partition(" ")
    if scheme.lower() != "basic" or len(encoded) > _LONGEST:
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


class Users:
    """Checks passwords; those that were right are remembered, as a keyed digest of each.

    Wrong ones are not: whoever tries many must not push the right ones out. An unknown user costs
    as much time as a known one.
    """

    def __init__(self, hashes: Mapping[str, str], executor: Executor) -> None:
        self._hashes = dict(hashes)
        self._executor = executor
        self._secret = os.urandom(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._waiting: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._hashes)

    async def accept(self, user: str, password: bytes, address: str) -> bool:
        """Return whether the password that came from an address is the user's.

        Raises:
            BusyError: too many others are being checked.
        """
        known = self._hashes.get(user)
        stored = known or self._nobody(user)
        digest = self._digest(user, stored, password)
        if digest in self._right:
            self._right.move_to_end(digest)
            return True
        is_full = self._waiting.total() >= _MOST_WAITING
        if is_full or self._waiting[address] >= _MOST_WAITING_OF_ONE:
            raise BusyError
        self._waiting[address] += 1
        try:
            loop = asyncio.get_running_loop()
            fits = await loop.run_in_executor(self._executor, _fits, password, stored)
        finally:
            self._waiting -= Counter((address,))
        if fits and known:
            self._right[digest] = None
            while len(self._right) > _REMEMBERED:
                self._right.popitem(last=False)
        return fits and known is not None

    def _digest(self, user: str, stored: str, password: bytes) -> bytes:
        name = user.encode()
        text = b"%d:%b%b%b" % (len(name), name, stored.encode(), password)
        return hmac.digest(self._secret, text, "sha256")

    def _nobody(self, user: str) -> str:
        """Return a hash for a user that does not exist, of a cost that one who does has."""
        costs = sorted(stored[:7] for stored in self._hashes.values())
        choice = hashlib.sha256(self._secret + user.encode()).digest()[0]
        return costs[choice % len(costs)] + _NOBODY


def _fits(password: bytes, stored: str) -> bool:
    import bcrypt  # only where there are users

    try:
        return bcrypt.checkpw(password[:_PASSWORD_BYTES], stored.encode())
    except ValueError:
        # A NUL in the password, or a hash that only looks like one.
        return False
