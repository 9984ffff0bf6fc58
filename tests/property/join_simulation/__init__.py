"""Kafka clients, their sockets' kernel counters and their metrics, simulated from measured laws.

    python -m tests.property.join_simulation --profile tls13 --runs 5000 --seed 1
    python -m tests.property.join_simulation --profile tls13 --story 4711

A run is a host with processes, their clients, and an agent that reads both. Everything follows
from the profile and the seed: no clock, no I/O. The world keeps every total as a function of time
(`wires.Total`), so a look at the sockets and a page of metrics may be of any two moments.
"""
