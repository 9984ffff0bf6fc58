"""One-to-one matching: what is forced, and which choices are as good as the one that was made.

Pure, and blind to what the two sides are.
"""

from __future__ import annotations

__all__ = ["Pick", "largest", "matched"]

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

R = TypeVar("R")


class Pick(NamedTuple, Generic[R]):
    """The row that a socket gets; `equals` it could have got as well, without loss for any.

    `contested`: another socket goes without, that could have had this row or one for it.
    """

    row: R
    equals: tuple[R, ...]
    contested: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether every largest matching gives this row to this socket."""
        return not self.equals and not self.contested


def matched(edges: Mapping[int, Iterable[R]]) -> dict[int, Pick[R]]:
    """Match as many sockets (by cookie) as possible; where there is a choice, by the order given.

    A row is an alternative exactly when another matching of the same size gives it to the socket:
    on a cycle of sockets that can pass their rows on, on a chain that ends in a row left over, or
    on one that begins with a socket left over.
    """
    rows_of = {cookie: list(rows) for cookie, rows in edges.items()}
    owner = largest(rows_of)
    row_of = {cookie: row for row, cookie in owner.items()}
    # Who would have to move on when a socket takes another row; None: that row is left over.
    follows = {
        cookie: {row: owner.get(row) for row in rows if row != row_of[cookie]}
        for cookie, rows in rows_of.items()
        if cookie in row_of
    }
    can_end = _can_end(follows)
    contested = _contested(rows_of, owner, row_of)
    circles = _circles(
        {
            cookie: [other for other in others.values() if other is not None]
            for cookie, others in follows.items()
        }
    )
    return {
        cookie: Pick(
            row_of[cookie],
            tuple(
                row
                for row, other in others.items()
                if other is None
                or other in can_end
                or cookie in contested
                or circles[other] == circles[cookie]
            ),
            cookie in contested,
        )
        for cookie, others in follows.items()
    }


def largest(rows_of: Mapping[int, list[R]]) -> dict[R, int]:
    """Return a largest matching, by shortest augmenting paths; earlier sockets stay matched."""
    owner: dict[R, int] = {}
    for first, rows in rows_of.items():
        free = next((row for row in rows if row not in owner), None)
        if free is not None:
            owner[free] = first
            continue
        reached_by: dict[R, int] = {}
        queue = deque([first])
        end: R | None = None
        while queue and end is None:
            cookie = queue.popleft()
            for row in rows_of[cookie]:
                if row in reached_by:
                    continue
                reached_by[row] = cookie
                if row not in owner:
                    end = row
                    break
                queue.append(owner[row])
        held = {cookie: row for row, cookie in owner.items()} if end is not None else {}
        while end is not None:
            cookie = reached_by[end]
            owner[end] = cookie
            end = held.get(cookie) if cookie != first else None
    return owner


def _can_end(follows: Mapping[int, Mapping[R, int | None]]) -> set[int]:
    """Return the sockets from which a chain of moves leads to a row that is left over."""
    before: dict[int, list[int]] = {}
    found: set[int] = set()
    for cookie, others in follows.items():
        for other in others.values():
            if other is None:
                found.add(cookie)
            else:
                before.setdefault(other, []).append(cookie)
    queue = deque(found)
    while queue:
        for cookie in before.get(queue.popleft(), ()):
            if cookie not in found:
                found.add(cookie)
                queue.append(cookie)
    return found


def _contested(
    rows_of: Mapping[int, list[R]], owner: Mapping[R, int], row_of: Mapping[int, R]
) -> set[int]:
    """Return the sockets that a chain of moves could leave without a row, for one that has none."""
    found = {owner[row] for cookie, rows in rows_of.items() if cookie not in row_of for row in rows}
    queue = deque(found)
    while queue:
        for row in rows_of[queue.popleft()]:
            other = owner.get(row)
            if other is not None and other not in found:
                found.add(other)
                queue.append(other)
    return found


def _circles(follows: Mapping[int, list[int]]) -> dict[int, int]:
    """Return the number of each socket's strongly connected component (Kosaraju, no recursion)."""
    order: list[int] = []
    seen: set[int] = set()
    for start in follows:
        stack = [(start, iter(follows[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            cookie, rest = stack[-1]
            nxt = next((other for other in rest if other not in seen), None)
            if nxt is None:
                order.append(cookie)
                stack.pop()
            else:
                seen.add(nxt)
                stack.append((nxt, iter(follows[nxt])))
    backwards: dict[int, list[int]] = {cookie: [] for cookie in follows}
    for cookie, others in follows.items():
        for other in others:
            backwards[other].append(cookie)
    circles: dict[int, int] = {}
    for number, start in enumerate(reversed(order)):
        queue = [start] if start not in circles else []
        while queue:
            cookie = queue.pop()
            if cookie not in circles:
                circles[cookie] = number
                queue += [other for other in backwards[cookie] if other not in circles]
    return circles
