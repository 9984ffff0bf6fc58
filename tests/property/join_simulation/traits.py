"""What a simulated world may be like, by name, and in what share of the runs it is."""

from __future__ import annotations

TRAITS = {
    # The brokers and how they are found.
    "shuffled lists": 0.5,
    "own certificates": 0.5,
    "ecdsa": 0.2,
    "load balancer": 0.1,
    "host names": 0.3,
    "one address": 0.1,
    # What is on the host.
    "several processes": 0.3,
    "librdkafka": 0.25,
    "twins": 0.3,
    "same names": 0.07,
    "hidden clients": 0.1,
    "probes": 0.1,
    "foreign page": 0.05,
    "hostile sender": 0.07,
    # What clients do.
    "resumed bootstrap": 0.3,
    "full buffers": 0.3,
    "slow peers": 0.2,
    "busy": 0.15,
    "in step": 0.2,
    "not polling": 0.1,
    "large metadata": 0.1,
    "metadata refreshes": 0.3,
    "key updates": 0.05,
    # What becomes of them.
    "restarts": 0.2,
    "reconnects": 0.4,
    "idle closing": 0.3,
    # How the agent reads all that.
    "late agent": 0.4,
    "lags": 0.7,
    "torn pages": 0.7,
    "slow pages": 0.2,
    "late statistics": 0.3,
    "unknown sender": 0.3,
    "shared uid": 0.1,
    "groups": 0.7,
    "groups read late": 0.2,
    "no counts": 0.2,
    "counts lag": 0.3,
    "no ciphers": 0.4,
}

# What is nothing out of the ordinary: an agent on a host whose processes it may look into.
ORDINARY = ("groups", "own certificates", "shuffled lists", "idle closing")
