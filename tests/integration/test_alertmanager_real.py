"""The agent's alerts and real Alertmanagers: they arrive once, stay while true, and end once."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import bcrypt
import pytest

from exporter.alerting.alertmanager import AlertmanagerSink
from exporter.alerts.settings import AlertOverride, RuleSettings
from exporter.commands.run import sender_to
from exporter.config.alertmanager import AlertmanagerTarget
from exporter.config.settings import AlertmanagerSettings, LimitSettings
from exporter.snapshot import Finding, Severity
from tests.e2e.monitoring import HOST, Alertmanager, Webhook, eventually
from tests.lab.addresses import free_port
from tests.lab.certificates import make_certificates
from tests.unit.snapshots import snapshot

pytestmark = pytest.mark.timeout(180)

NAME = "KafkaClientZombieConnections"
RULES = RuleSettings(
    labels={"team": "streaming"},
    alerts=(AlertOverride(name=NAME, fire_after=1.0, keep_firing_for=0.1),),
)


def zombie(client_id="orders") -> Finding:
    return Finding(
        name=NAME,
        severity=Severity.WARNING,
        labels={
            "client_id": client_id,
            "client_kind": "producer",
            "process": "java",
            "broker_id": "1",
            "broker": "10.2.0.1:9092",
        },
        summary="",
        description="producer 'orders' holds 1 connection of class zombie.",
        remedy="Set connections.max.idle.ms.",
        value=1.0,
    )


class Agent:
    """A snapshot that is always fresh, with the findings of the moment."""

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()

    def __call__(self):
        return replace(snapshot(), at=time.monotonic(), findings=self.findings)


@contextmanager
def sink(agent, *targets, interval=2.0, most=1000):
    made = AlertmanagerSink(
        AlertmanagerSettings(
            targets=targets,
            interval=interval,
            labels={"namespace": "shop"},
            external_url="http://orders-0.shop.example:10920/",
            max_alerts=most,
        ),
        RULES,
        LimitSettings(),
        lambda: [({}, agent())],
        sender_to,
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()


def target(manager, **more):
    return AlertmanagerTarget(url=manager.url, timeout=5.0, **more)


def figure(made, name, url):
    return {(n, *labels): v for n, labels, v in made.readings()}[name, url]


def errors(caplog):
    """What the log's lines say beside their message."""
    return " ".join(str(getattr(record, "error", "")) for record in tuple(caplog.records))


@pytest.fixture
def webhook():
    with Webhook() as hook:
        yield hook


@pytest.fixture
def alertmanager(tmp_path, webhook):
    with Alertmanager(tmp_path / "one", webhook) as manager:
        yield manager


def test_an_alert_arrives_once_stays_while_it_is_true_and_ends_once(webhook, alertmanager):
    agent = Agent()
    with sink(agent, target(alertmanager), interval=1.0) as made:
        agent.findings = (zombie(),)
        told = webhook.wait(NAME)
        assert told.labels == zombie().labels | {
            "alertname": NAME,
            "severity": "warning",
            "team": "streaming",
            "namespace": "shop",
        }
        annotations = dict(told.alert["annotations"])
        # It opens on what the alert is about (tests/unit/test_alertmanager_states.py has it whole).
        dashboard = annotations.pop("dashboard_url")
        assert dashboard.startswith("/d/brokerwire-clients?")
        assert "var-client_id=orders" in dashboard
        assert annotations == {
            "summary": "Zombie connections: unused, and nothing closes them",
            "description": "producer 'orders' holds 1 connection of class zombie.",
            "remedy": "Set connections.max.idle.ms.",
            "runbook_url": f"docs/runbooks/{NAME}.md",
        }
        assert told.alert["generatorURL"] == "http://orders-0.shop.example:10920/"
        # Without being sent again it would end after four intervals: 4 s.
        sent = figure(made, "brokerwire_alerts_sent_total", alertmanager.url)
        eventually(
            "the alert to be sent four times more",
            lambda: figure(made, "brokerwire_alerts_sent_total", alertmanager.url) >= sent + 4,
        )
        assert [alert["status"]["state"] for alert in alertmanager.alerts()] == ["active"]
        assert webhook.summary() == [(NAME, "firing")]
        agent.findings = ()
        ended = webhook.wait(NAME, "resolved")
        assert ended.alert["startsAt"] == told.alert["startsAt"]
        time.sleep(3)  # more than once it is told as resolved
        assert webhook.summary() == [(NAME, "firing"), (NAME, "resolved")]
        assert figure(made, "brokerwire_alert_request_failures_total", alertmanager.url) == 0


def test_an_agent_that_ends_leaves_an_alert_that_ends_by_itself(webhook, alertmanager):
    agent = Agent()
    agent.findings = (zombie(),)
    with sink(agent, target(alertmanager), interval=1.0):
        webhook.wait(NAME)
    webhook.wait(NAME, "resolved", seconds=30)


def test_an_alertmanager_that_was_killed_hears_of_it_when_it_is_back(webhook, alertmanager):
    agent = Agent()
    agent.findings = (zombie(),)
    with sink(agent, target(alertmanager)) as made:
        webhook.wait(NAME)
        alertmanager.kill()
        eventually(
            "requests to fail",
            lambda: figure(made, "brokerwire_alert_request_failures_total", alertmanager.url) >= 2,
        )
        agent.findings = (zombie("billing"),)
        time.sleep(5)
        alertmanager.start()
        webhook.wait(NAME, client_id="billing")
        eventually("the queue to be empty", lambda: not made._deliveries[0].queue)
        # What ended while it was away: it is told, or not known to it at all.
        eventually(
            "the ended one to be gone",
            lambda: [a["labels"]["client_id"] for a in alertmanager.alerts()] == ["billing"],
        )


def test_one_that_is_away_delays_nobody(webhook, alertmanager):
    agent = Agent()
    agent.findings = (zombie(),)
    away = AlertmanagerTarget(url=f"http://{HOST}:{free_port(HOST)}")
    with ExitStack() as stack:
        # A listener that never accepts: connections get through and nothing comes back.
        silent = stack.enter_context(socket.create_server((HOST, 0)))
        hanging = AlertmanagerTarget(url=f"http://{HOST}:{silent.getsockname()[1]}", timeout=30.0)
        begun = time.monotonic()
        made = stack.enter_context(sink(agent, away, hanging, target(alertmanager)))
        webhook.wait(NAME, seconds=20)
        assert time.monotonic() - begun < 20
        assert figure(made, "brokerwire_alerts_queued", away.url) == 1
        assert figure(made, "brokerwire_alerts_sent_total", hanging.url) == 0
        begun = time.monotonic()
        made.stop()
        assert time.monotonic() - begun < 1.0


def test_tls_and_basic_authentication(webhook, tmp_path, caplog):
    make_certificates(tmp_path / "certificates", [HOST])
    folder = tmp_path / "certificates"
    password = "opensesame-geheim"
    web = {
        "tls_server_config": {
            "cert_file": str(folder / "broker.pem"),
            "key_file": str(folder / "broker.key"),
        },
        "basic_auth_users": {"agent": bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()},
    }
    secret = tmp_path / "password"
    secret.write_text("wrong-geheim\n")
    agent = Agent()
    agent.findings = (zombie(),)
    with ExitStack() as stack:
        manager = stack.enter_context(Alertmanager(tmp_path / "tls", webhook, web=web))
        trusted = {"ca_file": str(folder / "authority.pem")}
        who = {"username": "agent", "password_file": str(secret)}
        made = stack.enter_context(sink(agent, target(manager, **trusted, **who)))
        eventually("to be refused", lambda: "answered 401" in errors(caplog))
        # The file is read anew for each request.
        secret.write_text(password + "\n")
        webhook.wait(NAME)
        assert figure(made, "brokerwire_alerts_sent_total", manager.url) >= 1
        stranger = stack.enter_context(sink(agent, target(manager, **who)))
        eventually("the certificate not to be trusted", lambda: "cannot trust" in errors(caplog))
        assert figure(stranger, "brokerwire_alerts_sent_total", manager.url) == 0
    assert "geheim" not in caplog.text + errors(caplog)


def test_queues_are_bounded_and_what_is_left_is_sent(webhook, alertmanager):
    agent = Agent()
    alertmanager.kill()
    agent.findings = tuple(zombie(f"c{n}") for n in range(100))
    with sink(agent, target(alertmanager), most=20) as made:
        eventually(
            "the queue to fill",
            lambda: figure(made, "brokerwire_alerts_queued", alertmanager.url) == 20,
        )
        assert figure(made, "brokerwire_alerts_dropped_total", alertmanager.url) == 80
        alertmanager.start()
        eventually("twenty to be told", lambda: len(webhook.of(NAME)) >= 20)
        assert len({told.labels["client_id"] for told in webhook.told}) == 20
