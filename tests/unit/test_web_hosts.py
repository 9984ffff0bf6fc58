"""The names that the server answers to: never one that a stranger can register."""

from __future__ import annotations

import socket

import pytest

from exporter.http.hosts import Hosts

HOSTS = Hosts(["Agent.Example.com"], ["agents.example.org:10920", "[::1]:10920", ":10921"])


@pytest.mark.parametrize(
    "host",
    [
        None,
        "localhost:10920",
        "127.0.0.1:10920",
        "10.1.2.3",
        "[::1]:10920",
        "[fd00::7]",
        "brokerwire:10920",
        "brokerwire.kafka.svc:10920",
        "brokerwire.kafka.svc.cluster.local.",
        "agent.example.com:10920",
        "AGENT.EXAMPLE.COM.",
        "agents.example.org",
        socket.gethostname(),
    ],
)
def test_addresses_private_and_configured_names_are_welcome(host):
    assert HOSTS.welcomes(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:10920",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "agent.example.com.evil.example",
        "xagent.example.com",
        "svc.example",
        "127.0.0.1@evil.example",
    ],
)
def test_names_that_a_stranger_can_register_are_not(host):
    assert not HOSTS.welcomes(host)
