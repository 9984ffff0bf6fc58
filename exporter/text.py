"""Text as people read it, whatever its source: one line, of bounded length."""

from __future__ import annotations

__all__ = ["LONGEST_VALUE", "escaped", "joined", "printable"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_VALUE = 256


def printable(text: str, longest: int = LONGEST_VALUE) -> str:
    """Return text that is one line on any terminal, of at most `longest` characters.

    Whatever Python does not call printable is written as an escape: C0, C1, ESC, U+2028 and
    U+2029, the marks that turn the direction of writing, lone surrogates.
    """
    if len(text) <= longest and text.isprintable():
        return text
    return joined((escaped(letter) for letter in text), longest)


def escaped(letter: str) -> str:
    """Return one letter as it may be printed."""
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def joined(pieces: Iterable[str], longest: int) -> str:
    """Join whole pieces up to a length: a cut in the middle of an escape would change it."""
    taken: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        taken.append(piece)
        if length > longest:
            while length > longest - 1 and taken:
                length -= len(taken.pop())
            return "".join(taken) + "…"
    return "".join(taken)
