"""Alerts on the agent itself: one that serves and does not look, and one that is gone."""

from __future__ import annotations

import time

import pytest

from tests.e2e.causes import stopped_poll
from tests.e2e.monitoring import eventually

pytestmark = [pytest.mark.lab, pytest.mark.ondemand, pytest.mark.timeout(600)]


def test_a_poll_that_hangs_is_too_old(scene):
    old = scene.begins("BrokerwirePollTooOld", "the agent's polling thread is stopped (ptrace)")
    with stopped_poll(scene.agent.pid, scene.agent_address) as stopped_at:
        old.began = stopped_at
        scene.wait_firing(old)
    old.ended = time.time()
    scene.wait_resolved(old)


def test_an_agent_that_is_killed_is_told_by_prometheus_alone(scene):
    down = scene.begins("BrokerwireAgentDown", "kill -9 of the agent", instance=scene.agent_address)
    down.ways = ("prometheus",)
    scene.agent.kill()
    scene.wait_firing(down)
    scene.start_agent()
    down.ended = time.time()
    scene.wait_resolved(down)
    known = 'kafka_client_connections{class="data",client_id!=""} > 0'
    eventually("the clients to be known again", lambda: scene.prometheus.query(known), seconds=90)
    assert scene.hooks["agent"].of("BrokerwireAgentDown") == []
