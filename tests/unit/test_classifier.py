"""The classifier: each class by what makes it, and what is stronger than what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.config.settings import ClassSettings
from exporter.connections.classifier import (
    CLOSING_GRACE_SECONDS,
    Standing,
    classify,
)
from exporter.connections.signs import Sign
from exporter.connections.tracker import TrackedConnection
from exporter.model import (
    Attribution,
    ClientKey,
    ClientKind,
    Confidence,
    ConnectionClass,
    Library,
    NodeReading,
    OwnerRung,
    Role,
    TcpState,
)
from tests.unit.sockets import JVM, figures, reading

NOW = 10_000.0
TIMES = ClassSettings()
STRANGER = replace(JVM, key="9:1", name="probe", library=Library.UNKNOWN)


def tracked(idle=1.0, age=100.0, *, owner=JVM, exact=True, **changes):
    """A connection that has been idle for so long."""
    return TrackedConnection(
        reading=reading(**changes),
        owner=owner,
        opened_at=NOW - age,
        age_is_exact=exact,
        first_for_owner=False,
        last_activity_at=NOW - idle,
        state_since=NOW - 7.0,
    )


def standing(role=Role.DATA, *, library=Library.JAVA, partitions=None, **changes):
    """What is known of a connection that a client's metrics claim."""
    node = NodeReading(
        node_id="1",
        role=role,
        broker_id=1,
        outgoing_bytes=50,
        incoming_bytes=70,
        partitions=partitions,
    )
    attribution = Attribution(
        client=ClientKey("page", ClientKind.PRODUCER, "p"),
        node=node,
        library=library,
        confidence=Confidence.EXACT,
        evidence=("equal bytes",),
    )
    limit = 540.0 if library is Library.JAVA else 0.0
    values = {"attribution": attribution, "library": library, "learned": True, "idle_limit": limit}
    return Standing(**(values | changes))


def classed(connection, around=None, times=TIMES):
    return classify(connection, around or Standing(), times, NOW)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.DATA, ConnectionClass.DATA),
        (Role.COORDINATOR, ConnectionClass.COORDINATOR),
        (Role.TRANSACTION, ConnectionClass.TRANSACTION),
        (Role.ADMIN, ConnectionClass.ADMIN),
        (Role.BOOTSTRAP, ConnectionClass.BOOTSTRAP),
        (Role.UNKNOWN, ConnectionClass.UNKNOWN),
    ],
)
def test_a_connection_in_use_is_of_its_roles_class(role, expected):
    verdict = classed(tracked(), standing(role))
    assert (verdict.connection_class, verdict.role) == (expected, role)
    assert verdict.confidence is Confidence.EXACT


def test_bootstrap_is_useful_until_the_client_has_learned_its_brokers():
    assert classed(tracked(), standing(Role.BOOTSTRAP, learned=False)).useful
    superseded = classed(tracked(), standing(Role.BOOTSTRAP))
    assert not superseded.useful
    assert "does not use this connection any more" in superseded.evidence[0]
    assert superseded.closes_in_seconds == pytest.approx(539.0)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (TcpState.CLOSE_WAIT, ConnectionClass.HALF_CLOSED),
        (TcpState.SYN_SENT, ConnectionClass.CONNECTING),
    ],
)
def test_what_tcp_shows_comes_first_and_keeps_the_role(state, expected):
    around = standing(Role.COORDINATOR, stale="moved", excess="too many")
    verdict = classed(tracked(idle=9_000.0, tcp_state=state), around)
    assert (verdict.connection_class, verdict.role) == (expected, Role.COORDINATOR)
    assert not verdict.useful


def test_a_ghost_is_a_ghost_in_any_state():
    gone = tracked(tcp_state=TcpState.CLOSE_WAIT)
    gone.ghost = gone.descriptor_seen = True
    assert classed(gone).connection_class is ConnectionClass.GHOST


def test_stale_comes_before_zombie_and_zombie_before_excess():
    around = standing(stale="moved", excess="too many")
    old = tracked(idle=9_000.0)
    assert classed(old, around).connection_class is ConnectionClass.STALE
    around = replace(around, stale=None)
    assert classed(old, around).connection_class is ConnectionClass.ZOMBIE
    assert classed(tracked(), around).connection_class is ConnectionClass.EXCESS


OFF = {"idle_limit": 0.0, "idle_limit_known": True}


@pytest.mark.parametrize(
    ("idle", "around", "expected"),
    [
        pytest.param(11, standing(Role.BOOTSTRAP, **OFF), True, id="superseded and off: at once"),
        pytest.param(9, standing(Role.BOOTSTRAP, **OFF), False, id="... once it has settled"),
        pytest.param(
            9_000, standing(Role.BOOTSTRAP, learned=False, **OFF), False, id="off, still needed"
        ),
        pytest.param(9_000, standing(**OFF), False, id="off, a quiet client's data connection"),
        pytest.param(601, standing(Role.BOOTSTRAP), True, id="superseded, limit is a default"),
        pytest.param(599, standing(Role.BOOTSTRAP), False, id="... not before its time"),
        pytest.param(601, standing(), True, id="data, unused, the client should have closed it"),
        pytest.param(
            90 + CLOSING_GRACE_SECONDS,
            standing(idle_limit=90.0, idle_limit_known=True),
            True,
            id="a limit that is configured, and a minute",
        ),
        pytest.param(
            601,
            standing(idle_limit=3_600.0, idle_limit_known=True),
            False,
            id="a long limit that is configured",
        ),
        pytest.param(
            9_000,
            standing(library=Library.LIBRDKAFKA, partitions=3),
            False,
            id="librdkafka, quiet partitions",
        ),
        pytest.param(
            601,
            standing(library=Library.LIBRDKAFKA, partitions=0),
            True,
            id="librdkafka, a node that it has nothing to do with",
        ),
        pytest.param(
            601,
            Standing(library=Library.JAVA),
            True,
            id="a JVM without metrics: it would have closed an idle one",
        ),
    ],
)
def test_a_zombie_is_past_the_moment_when_idle_closing_should_have_ended_it(idle, around, expected):
    verdict = classed(tracked(idle=idle, age=idle + 100), around)
    assert (verdict.connection_class is ConnectionClass.ZOMBIE) is expected


def test_of_an_unknown_library_only_what_was_never_used_again_is_a_zombie():
    unused = tracked(idle=700.0, age=702.0, owner=STRANGER)
    quiet = tracked(idle=700.0, age=9_000.0, owner=STRANGER)
    assert classed(unused).connection_class is ConnectionClass.ZOMBIE
    assert classed(quiet).connection_class is ConnectionClass.UNKNOWN


def test_a_zombies_end_is_promised_by_nobody_where_closing_is_off():
    verdict = classed(tracked(idle=20.0), standing(Role.BOOTSTRAP, **OFF))
    assert "idle timeout disabled" in verdict.close_expected
    assert verdict.closes_in_seconds is None


SILENT = {"info": figures(0, 0, segments_out=2, segments_in=1), "age": 4.0, "idle": 4.0}


def test_a_silent_connection_of_no_kafka_client_is_a_probe():
    verdict = classed(tracked(owner=STRANGER, **SILENT))
    assert verdict.connection_class is ConnectionClass.PROBE


@pytest.mark.parametrize(
    ("owner", "changes"),
    [
        pytest.param(JVM, {}, id="a consumer that connects and does not poll"),
        pytest.param(
            replace(STRANGER, library=Library.LIBRDKAFKA), {}, id="a process with librdkafka"
        ),
        pytest.param(
            replace(STRANGER, rung=OwnerRung.CGROUP), {}, id="nobody knows which process it is"
        ),
        pytest.param(STRANGER, {"age": 0.5}, id="too young"),
        pytest.param(STRANGER, {"age": 11.0}, id="too old for a health check"),
        pytest.param(STRANGER, {"exact": False}, id="opened before the agent was"),
        pytest.param(STRANGER, {"info": figures(50, 70)}, id="it has spoken"),
    ],
)
def test_what_may_be_a_kafka_client_is_not_called_a_probe(owner, changes):
    verdict = classed(tracked(owner=owner, **(SILENT | changes)))
    assert verdict.connection_class is not ConnectionClass.PROBE


def test_without_any_sign_the_answer_is_unknown_and_says_why():
    verdict = classed(tracked())
    assert verdict.connection_class is ConnectionClass.UNKNOWN
    assert verdict.confidence is Confidence.NONE
    assert "more than one role" in verdict.evidence[0]
    assert "too young" in classed(tracked(age=2.0)).evidence[0]


def test_where_metrics_tell_whose_it_is_and_not_what_for_the_signs_decide():
    sign = Sign(Role.COORDINATOR, Confidence.STRONG, "it beats")
    verdict = classed(tracked(), standing(Role.UNKNOWN, sign=sign))
    assert (verdict.role, verdict.confidence) == (Role.COORDINATOR, Confidence.STRONG)
    assert classed(tracked(), standing(Role.DATA, sign=sign)).role is Role.DATA
