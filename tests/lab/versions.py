"""Every version the lab uses, written once, with the digests of the jars that matter."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CLIENT_GENERATIONS",
    "DIGESTS",
    "JMX_EXPORTER",
    "JOLOKIA",
    "MAVEN_DEPENDENCY_PLUGIN",
    "MICROMETER",
    "SERVER",
    "SLF4J",
]

SERVER: Final = "4.3.1"
# 2.1 is what the articles describe, 3.9 the last of the old line, 4.4 names coordinators anew.
CLIENT_GENERATIONS: Final = ("2.1.0", "3.9.2", "4.4.0")
JMX_EXPORTER: Final = "1.0.1"
JOLOKIA: Final = "2.5.0"
MICROMETER: Final = "1.14.5"
SLF4J: Final = "1.7.36"
MAVEN_DEPENDENCY_PLUGIN: Final = "3.8.1"

# sha256 of the jars that the lab names itself; what they depend on is Maven's to check.
DIGESTS: Final[dict[str, str]] = {
    "kafka_2.13-4.3.1.jar": "b098abef5ff878e76f60cd6c559b9baa5663ccb1b55f2837558b22c329d32423",
    "kafka-server-4.3.1.jar": "01d736599ec3b0cdbb0480c15219170b28cdae189785e7f0c6f1f26e528eaebc",
    "kafka-clients-2.1.0.jar": "02ece3f6178adf404a94935f96ae4695e0f521bc99213943577d24384dca97d4",
    "kafka-clients-3.9.2.jar": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    "kafka-clients-4.4.0.jar": "1ab07317eb6633241392449d329dbdc5d9251e6ffc4926860f42dd966e88bdf9",
    "jmx_prometheus_javaagent-1.0.1.jar": "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1",
    "jolokia-agent-jvm-2.5.0-javaagent.jar": "89d4614964817875b61a8d41a1d76d60d946935a3a1bdce1458717e222b40976",
    "micrometer-core-1.14.5.jar": "7c0c55ef7fe1bef5b89453655e768ee05fd35b381bd67f9d42cfe48362174ca5",
    "micrometer-registry-prometheus-1.14.5.jar": "77c7732553e234644922143121b7d27cc23686def60348b8d6886fcd3edae247",
    "slf4j-simple-1.7.36.jar": "2f39bed943d624dfa8f4102d0571283a10870b6aa36f197a8a506f147010c10f",
}
