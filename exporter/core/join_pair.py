"""One socket held against one node, read after read: whether the law allows that they are one.

K is what the socket counts and the node does not (`join_laws`). It must stay as it is, or grow by
whole records where those are not told; a login in between is allowed for.
Pure.
"""

from __future__ import annotations

__all__ = ["PairHistory"]

from typing import TYPE_CHECKING, NamedTuple

from exporter.core.join_laws import (
    LEAST_BYTES_PER_RECORD,
    MOST_RECORDS_PER_REQUEST,
    NOTHING,
    PLAIN,
    Shape,
)

if TYPE_CHECKING:
    from exporter.core.join_laws import Bracket, Counts, Law

# A read of the figures in the moment between a client's write and its count breaks the law by
# chance; twice is no chance. Two growths in step after a strike show that it was chance.
STRIKES = 2
FORGIVING_GROWTHS = 2

# Reads between whose bounds a busy socket's totals must lie before that counts.
LEAST_BOUNDED = 3

# How often a client may log in anew between two reads, and what its side of a login weighs: that
# depends on names and passwords.
MOST_LOGINS = 8
LOGIN_REQUESTS = range(40, 2_000)


class _Login(NamedTuple):
    """A login in the middle of a connection (connections.max.reauth.ms), which Java does not count.

    Each way so many messages; what comes in is told by the mechanism alone, but for nonces.
    """

    messages: int
    least_in: int
    most_in: int


# PLAIN 58 B, measured; SCRAM-SHA-256 223 to 226 B.
LOGINS = (_Login(2, 58, 58), _Login(3, 215, 234))


class Span(NamedTuple):
    """Between which bounds a K lies."""

    low: int
    high: int


class _Quiet(NamedTuple):
    """Both Ks at one read between two equal looks at the socket."""

    out: int
    incoming: int
    counts: Counts


class PairHistory:
    """Whether one socket can be one node under one law, after all that was read of both."""

    __slots__ = (
        "_bracket",
        "_doubt",
        "_in",
        "_logins_in",
        "_logins_out",
        "_out",
        "_quiet",
        "_since_strike",
        "_strikes",
        "bases",
        "counts",
        "grown",
        "growths",
        "law",
        "rebased",
        "samples",
        "shape",
    )

    def __init__(self, law: Law, shape: Shape, bases: tuple[Counts, ...] = (NOTHING,)) -> None:
        """Begin a history; `bases` is what the node may have had before the socket was opened."""
        self.law = law
        self.shape = Shape(shape.exact_out or law.out == 0, shape.exact_in or law.incoming == 0)
        self.bases = bases
        self.counts = NOTHING
        self.samples = 0
        self.growths = 0
        self.grown = False
        self.rebased = False
        self._out = Span(0, 0)
        self._in = Span(0, 0)
        self._quiet: _Quiet | None = None
        self._bracket: Bracket | None = None
        self._doubt: _Quiet | None = None
        self._strikes = 0
        self._since_strike = 0
        self._logins_out = 0
        self._logins_in = 0

    @property
    def is_possible(self) -> bool:
        """Whether the law still allows this pair."""
        return self._strikes < STRIKES

    @property
    def is_settled(self) -> bool:
        """Whether both Ks are known, and the last quiet read agreed with them."""
        return self._quiet is not None and self._doubt is None and self.is_possible

    @property
    def is_doubted(self) -> bool:
        """Whether the last quiet read spoke against it, and the next one has to tell."""
        return self._doubt is not None

    @property
    def is_exact(self) -> bool:
        """Whether the totals are equal since the socket was opened, without TLS."""
        return self.law == PLAIN and self.is_settled and (0, 0) in self.offsets()

    @property
    def is_bounded(self) -> bool:
        """Whether it was read often enough, as the totals grew, for its bounds to tell anything."""
        return self.samples >= LEAST_BOUNDED and self.grown and not (self.rebased or self._doubt)

    def may_have(self, out: int, incoming: int, tolerance: int = 0) -> bool:
        """Whether these may be the Ks, by the bounds between which they were read."""
        for base in self.bases:
            base_out, base_in = self.law.paid(base)
            if _holds(self._out, out - base_out, tolerance, exact=self.shape.exact_out) and _holds(
                self._in, incoming - base_in, tolerance, exact=self.shape.exact_in
            ):
                return True
        return False

    def offsets(self) -> list[tuple[int, int]]:
        """Return both Ks, one pair for each thing that the node may have had before."""
        if self._quiet is None:
            return []
        found = []
        for base in self.bases:
            if self.counts.outgoing > base.outgoing and self.counts.incoming > base.incoming:
                out, incoming = self.law.paid(base)
                found.append(
                    (
                        self._quiet.out + out - self._logins_out,
                        self._quiet.incoming + incoming - self._logins_in,
                    )
                )
        return found

    def observe(self, bracket: Bracket, counts: Counts) -> bool:
        """Take one read of both; return False when the law does not allow the pair any more."""
        self.samples += 1
        unchanged = counts == self.counts and bracket == self._bracket
        if unchanged and bracket.is_quiet and self._doubt is None:
            return self.is_possible
        out, incoming = self._spans(bracket, counts)
        quiet = _Quiet(out.low, incoming.low, counts) if bracket.is_quiet else None
        earlier, self.counts, self._bracket = self.counts, counts, bracket
        if self.samples == 1:
            self._out, self._in, self._quiet = out, incoming, quiet
            return True
        self.grown = self.grown or counts.outgoing > earlier.outgoing
        if self._goes_on(out, incoming, quiet, earlier):
            self._advance(out, incoming, quiet)
        elif quiet is not None and self._quiet is not None and self._logged_in_anew(quiet):
            self._logins_out += quiet.out - self._quiet.out
            self._logins_in += quiet.incoming - self._quiet.incoming
            self._out, self._in, self._quiet = out, incoming, quiet
        elif quiet is not None and self._doubt is not None and self._follows(self._doubt, quiet):
            # What looked like a chance moment lasts: so this is how it is now.
            self._quiet, self._doubt, self.rebased = self._doubt, None, True
            self._advance(out, incoming, quiet)
        else:
            self._strike(out, incoming, quiet)
        return self.is_possible

    def _strike(self, out: Span, incoming: Span, quiet: _Quiet | None) -> None:
        self._strikes += 1
        self._since_strike = 0
        self.growths = 0
        if quiet is not None and self._quiet is not None:
            # The next quiet read tells which of both was the odd one.
            self._doubt = quiet
        else:
            self.rebased = True
            self._out, self._in, self._quiet = out, incoming, quiet

    def _spans(self, bracket: Bracket, counts: Counts) -> tuple[Span, Span]:
        """Return the bounds of both Ks.

        Bytes and requests are not counted at one instant: in traffic, records widen the bounds.
        """
        out, incoming = self.law.paid(counts)
        out_slack = bracket.out_high - bracket.out_low if self.law.out else 0
        in_slack = bracket.in_high - bracket.in_low if self.law.incoming else 0
        return (
            Span(bracket.out_low - out - out_slack, bracket.out_high - out + out_slack),
            Span(bracket.in_low - incoming - in_slack, bracket.in_high - incoming + in_slack),
        )

    def _goes_on(self, out: Span, incoming: Span, quiet: _Quiet | None, earlier: Counts) -> bool:
        counts = self.counts
        if counts.outgoing < earlier.outgoing or counts.incoming < earlier.incoming:
            return False
        if quiet is not None and self._quiet is not None:
            return self._follows(self._quiet, quiet)
        return _overlap(out, self._out, exact=self.shape.exact_out) and _overlap(
            incoming, self._in, exact=self.shape.exact_in
        )

    def _follows(self, earlier: _Quiet, quiet: _Quiet) -> bool:
        """Whether both Ks changed by what the law allows from one quiet read to another."""
        before, counts = earlier.counts, quiet.counts
        return _steps(
            quiet.out - earlier.out,
            self.law.out,
            counts.outgoing - before.outgoing,
            counts.requests - before.requests,
            exact=self.shape.exact_out,
            told=counts.requests >= 0,
        ) and _steps(
            quiet.incoming - earlier.incoming,
            self.law.incoming,
            counts.incoming - before.incoming,
            counts.responses - before.responses,
            exact=self.shape.exact_in,
            told=counts.responses >= 0,
        )

    def _advance(self, out: Span, incoming: Span, quiet: _Quiet | None) -> None:
        exact_out, exact_in = self.shape
        self._out = _narrowed(out, self._out) if exact_out else out
        self._in = _narrowed(incoming, self._in) if exact_in else incoming
        if quiet is None:
            return
        if self._quiet is not None and quiet.counts != self._quiet.counts:
            self.growths += 1
            self._since_strike += 1
        if self._since_strike >= FORGIVING_GROWTHS or self._doubt is not None:
            # In step again, or as before: the odd moment was chance.
            self._strikes = 0
        self._quiet, self._doubt = quiet, None

    def _logged_in_anew(self, quiet: _Quiet) -> bool:
        if self._quiet is None:
            return False
        if quiet.counts.outgoing <= self._quiet.counts.outgoing:
            # A connection that sends nothing does not log in either.
            return False
        out = quiet.out - self._quiet.out
        incoming = quiet.incoming - self._quiet.incoming
        return any(
            self._are_logins(out, incoming, login, times)
            for login in LOGINS
            for times in range(1, MOST_LOGINS + 1)
        )

    def _are_logins(self, out: int, incoming: int, login: _Login, times: int) -> bool:
        law, shape = self.law, self.shape
        sent = out // times - login.messages * law.out * law.per_request
        if sent not in LOGIN_REQUESTS and shape.exact_out:
            return False
        records = times * login.messages * law.incoming
        low = records + times * login.least_in
        high = records + times * login.most_in
        if shape.exact_in:
            return low <= incoming <= high
        return incoming >= low and (incoming - low) % law.incoming <= high - low


def _steps(step: int, cost: int, counted: int, messages: int, *, exact: bool, told: bool) -> bool:
    """Whether K changed by what the law allows: not at all, or by the records of big messages."""
    if exact or counted <= 0 or not cost:
        return step == 0
    records, rest = divmod(step, cost)
    most = MOST_RECORDS_PER_REQUEST * max(1, messages) + counted // LEAST_BYTES_PER_RECORD
    return rest == 0 and (0 if told else 1) <= records <= most


def _overlap(now: Span, before: Span, *, exact: bool) -> bool:
    if exact:
        return max(now.low, before.low) <= min(now.high, before.high)
    return now.high >= before.low


def _narrowed(now: Span, before: Span) -> Span:
    low, high = max(now.low, before.low), min(now.high, before.high)
    return Span(low, high) if low <= high else now


def _holds(span: Span, value: int, tolerance: int, *, exact: bool) -> bool:
    """Whether a K may have a value, or more where records come on top."""
    return (span.low - tolerance <= value or not exact) and value <= span.high + tolerance
