"""Runs of the join, drawn by seed: a security profile, an agent early or late, clients' traits."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.lab.certificates import CertificateShape
from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.join_clients import Traits

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Profile:
    """A listener, and how a client uses it."""

    listener: str
    mechanism: str = "PLAIN"


PROFILES = {
    "plaintext": Profile("PLAINTEXT"),
    "tls13": Profile("SSL"),
    "tls12": Profile("SSL_12"),
    "mutual_tls": Profile("SSL_AUTH"),
    "sasl_ssl_plain": Profile("SASL_SSL"),
    "sasl_ssl_scram": Profile("SASL_SSL", "SCRAM-SHA-256"),
    "sasl_ssl_reauth": Profile("SASL_SSL_REAUTH"),
    "sasl_plaintext": Profile("SASL_PLAINTEXT"),
    "sasl_scram": Profile("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    "sasl_reauth": Profile("SASL_REAUTH"),
}
LIBRDKAFKA = "librdkafka"
GENERATIONS = (*CLIENT_GENERATIONS, LIBRDKAFKA)

# How certificates differ by broker: not at all, by the least that tells them apart, by a lot.
CERTIFICATES: dict[str, dict[int, CertificateShape]] = {
    "one certificate": {},
    "certificates 5 bytes apart": {
        broker: CertificateShape(more_letters=5 * broker) for broker in (1, 2, 3)
    },
    "certificates of other keys": {
        2: CertificateShape(key_bits=3072),
        3: CertificateShape(more_letters=40, key_bits=4096),
    },
}
MOST_LATE_SECONDS = 30
WIDE_EVERY = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as drawn."""

    number: int
    seed: str
    profile: str
    late: float
    """Seconds that the agent starts after the clients; 0 for before them."""
    burners: int
    wide: bool
    """Whether each process has a producer of a topic with very many partitions."""
    certificates: str
    generations: tuple[str, ...]
    traits: dict[str, Traits]

    @property
    def name(self) -> str:
        """A file name for what comes of it."""
        when = "late" if self.late else "early"
        return f"{self.number:03d}_{self.profile}_{when}"

    def __str__(self) -> str:
        agent = f"agent {self.late:.0f} s late" if self.late else "agent early"
        clients = "; ".join(f"{name}: {traits}" for name, traits in self.traits.items())
        more = (f", {self.burners} burners" * bool(self.burners)) + ", wide" * self.wide
        return f"{self.profile}, {agent}, {self.certificates}{more}, seed {self.seed} | {clients}"


def drawn(options: argparse.Namespace) -> list[Run]:
    """Draw the runs: profiles in turn, early and late in turn, all else by seed."""
    runs = []
    for number in range(options.first, options.first + options.runs):
        seed = f"{options.seed}-{number}"
        random = Random(seed)
        turn, at = divmod(number, len(options.profile))
        profile = options.profile[at]
        generations = tuple(options.generation)
        if options.processes and options.processes < len(generations):
            generations = tuple(random.sample(generations, options.processes))
        runs.append(
            Run(
                number=number, seed=seed, profile=profile,
                late=random.uniform(3, MOST_LATE_SECONDS) if (turn + at) % 2 else 0.0,
                burners=2 if options.burners and random.random() < 0.5 else 0,
                wide=number % WIDE_EVERY == WIDE_EVERY - 1,
                certificates=list(CERTIFICATES)[turn % len(CERTIFICATES)],
                generations=generations,
                traits={each: Traits.drawn(random) for each in generations},
            )
        )  # fmt: skip
    return runs
