"""Laws of the classifier, whatever the figures."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from exporter.config.settings import ClassSettings
from exporter.connections.activity import Activity
from exporter.connections.classifier import Standing, classify
from exporter.connections.tracker import TrackedConnection
from exporter.model import (
    Attribution,
    ClientKey,
    ClientKind,
    Confidence,
    ConnectionClass,
    Library,
    NodeReading,
    Role,
    TcpState,
)
from tests.unit.sockets import JVM, figures, reading

NOW = 1e6
USEFUL = {
    ConnectionClass.DATA,
    ConnectionClass.COORDINATOR,
    ConnectionClass.TRANSACTION,
    ConnectionClass.ADMIN,
    ConnectionClass.BOOTSTRAP,
}

seconds = st.floats(0, 1e5)
counts = st.integers(0, 1 << 40)
activities = st.lists(
    st.builds(Activity, seconds, counts, counts, st.integers(0, 99), st.integers(0, 99)),
    max_size=20,
)
attributions = st.builds(
    lambda role, partitions: Attribution(
        client=ClientKey("page", ClientKind.CONSUMER, "c"),
        node=NodeReading(
            node_id="1",
            role=role,
            broker_id=1,
            outgoing_bytes=1,
            incoming_bytes=1,
            partitions=partitions,
        ),
        library=Library.JAVA,
        confidence=Confidence.EXACT,
        evidence=("equal bytes",),
    ),
    st.sampled_from(Role),
    st.none() | st.integers(0, 9),
)
standings = st.builds(
    Standing,
    attribution=st.none() | attributions,
    library=st.sampled_from(Library),
    learned=st.booleans(),
    idle_limit=st.none() | st.just(0.0) | seconds,
    idle_limit_known=st.booleans(),
    stale=st.none() | st.just("moved"),
    excess=st.none() | st.just("too many"),
)
times = st.builds(ClassSettings, zombie_after=seconds, settle_after=seconds, probe_within=seconds)


@st.composite
def connections(draw):
    age = draw(seconds)
    owner = replace(JVM, library=draw(st.sampled_from(Library)))
    info = draw(st.none() | st.builds(figures, counts, counts))
    tracked = TrackedConnection(
        reading=reading(tcp_state=draw(st.sampled_from(TcpState)), info=info),
        owner=owner,
        opened_at=NOW - age,
        age_is_exact=draw(st.booleans()),
        first_for_owner=draw(st.booleans()),
        last_activity_at=NOW - age * draw(st.floats(0, 1)),
        state_since=NOW - draw(seconds),
        ghost=draw(st.booleans()),
    )
    tracked.activities.extend(draw(activities))
    return tracked


@given(connections(), standings, times)
def test_every_connection_has_one_class_with_evidence(tracked, standing, settings):
    verdict = classify(tracked, standing, settings, NOW)
    assert verdict.connection_class in ConnectionClass
    assert verdict.role in Role
    assert all(verdict.evidence)
    assert verdict.evidence
    assert verdict.close_expected
    assert not verdict.useful or verdict.connection_class in USEFUL
    assert verdict.closes_in_seconds is None or verdict.closes_in_seconds >= 0


@given(connections(), standings, times, seconds)
def test_raising_zombie_after_never_creates_a_zombie(tracked, standing, settings, more):
    patient = replace(settings, zombie_after=settings.zombie_after + more)
    if classify(tracked, standing, patient, NOW).connection_class is ConnectionClass.ZOMBIE:
        at_once = classify(tracked, standing, settings, NOW)
        assert at_once.connection_class is ConnectionClass.ZOMBIE


@given(connections(), standings, times)
def test_what_the_client_says_is_never_overruled(tracked, standing, settings):
    verdict = classify(tracked, standing, settings, NOW)
    if standing.attribution is not None:
        assert verdict.role is standing.attribution.node.role


@given(connections(), standings, times)
def test_a_known_role_has_a_confidence(tracked, standing, settings):
    verdict = classify(tracked, standing, settings, NOW)
    if standing.attribution is None:
        assert (verdict.role is Role.UNKNOWN) == (verdict.confidence is Confidence.NONE)


@given(connections(), standings, times, seconds)
def test_a_zombie_stays_one_while_nothing_happens(tracked, standing, settings, later):
    verdict = classify(tracked, standing, settings, NOW)
    if verdict.connection_class is ConnectionClass.ZOMBIE:
        after = classify(tracked, standing, settings, NOW + later)
        assert after.connection_class is ConnectionClass.ZOMBIE
