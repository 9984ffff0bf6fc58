"""Whatever connections, clients and clocks do: records only grow, and their sum is the truth."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model import Endpoint
from tests.unit.journals import Bench, check, owned, socket
from tests.unit.sockets import end, figures

COOKIES = st.integers(1, 12)
POLLS = st.lists(
    st.tuples(
        st.frozensets(COOKIES, max_size=8),  # what is open
        st.floats(0.001, 400.0),  # how long after the poll before
        st.one_of(st.just(0.0), st.floats(-9000.0, 9000.0)),  # the wall clock's leap
        st.booleans(),  # whether ends are announced
    ),
    min_size=1,
    max_size=25,
)


def the_socket(cookie, moment):
    # A cookie is never used again: each opening is a socket of its own.
    remote = Endpoint(f"10.2.0.{cookie % 3}", 9092)
    return socket(cookie, out=10 * moment, into=20 * moment, remote=remote)


@settings(deadline=None, max_examples=150)
@given(POLLS, st.integers(1, 6), st.sampled_from([1.0, 10.0, 60.0]))
def test_records_only_grow_and_add_up_to_the_truth(polls, most_series, interval):
    bench = Bench(most_series=most_series, interval=interval)
    held, truth, ended = {}, 0, set()
    for moment, (wanted, seconds, step, announced) in enumerate(polls, 1):
        now_open = wanted - ended
        if moment > 1:
            truth += len(held) * (round((bench.now + seconds) * 1e6) - round(bench.now * 1e6))
        closed = []
        for cookie in held.keys() - now_open:
            ended.add(cookie)
            if announced:
                closed.append(end(held[cookie], bench.now + seconds, figures(10 * moment, 5)))
        held = {cookie: the_socket(cookie, moment) for cookie in now_open}
        owners = {cookie: owned(f"p{cookie % 4}") for cookie in held}
        bench.poll(*held.values(), seconds=seconds, step=step, owners=owners, closed=closed)
    bench.finish(1.0)
    truth += len(held) * 1_000_000
    check(bench.batches, round(interval * 1000))
    latest = bench.latest()
    told = sum(record["connection_ms"] for record in latest.values())
    # Each series of each boot drops less than a millisecond.
    assert truth / 1000 - len(latest) <= told <= truth / 1000
    ends = ("closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown")
    closed = sum(bench.total(name) for name in ends)
    assert closed == len(ended)
    assert sum(sum(record["lifetime_buckets"]) for record in latest.values()) == closed
    last_boot = bench.batches[-1].records[0]["boot_id"]
    assert bench.total("connections", boot_id=last_boot) == len(held)


@settings(deadline=None, max_examples=60)
@given(POLLS, st.randoms(use_true_random=False))
def test_duplicates_disorder_and_lost_batches_change_no_total(polls, random):
    bench = Bench()
    for moment, (wanted, seconds, _step, _announced) in enumerate(polls, 1):
        bench.poll(*(the_socket(cookie, moment) for cookie in wanted), seconds=seconds)
    bench.finish(1.0)
    every = bench.records()
    # The final batch has every series: with it, all others may be lost.
    kept = [record for record in every if record["final"] or random.random() < 0.5]
    kept += random.choices(every, k=len(every)) if every else []
    random.shuffle(kept)
    for name in ("connection_ms", "opened", "bytes_out", "lifetime_ms_sum"):
        assert greatest(kept, name) == greatest(every, name)


def greatest(records, name):
    found = {}
    for record in records:
        key = (record["agent_id"], record["boot_id"], record["series"])
        found[key] = max(found.get(key, 0), record[name] or 0)
    return found
