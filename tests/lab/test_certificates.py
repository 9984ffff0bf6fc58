"""Certificates of shapes that differ: what a broker sends in its handshake differs as much."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.lab.certificates import CertificateShape, make_certificates

FIRST, SECOND, THIRD = "127.77.1.1", "127.77.1.2", "127.77.1.3"


def length(certificates, name):
    pem = (certificates.folder / f"{name}.pem").read_bytes()
    return len(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER))


def test_a_shape_makes_a_certificate_longer_by_its_letters(tmp_path):
    shapes = {SECOND: CertificateShape(), THIRD: CertificateShape(more_letters=5)}
    made = make_certificates(tmp_path / "made", [FIRST, SECOND, THIRD], shapes)
    shared, same, longer = (
        length(made, name) for name in ("broker", f"broker-{SECOND}", f"broker-{THIRD}")
    )
    # A serial number may begin with a zero byte that is not sent.
    assert abs(same - shared) <= 1
    assert 4 <= longer - same <= 6


def test_a_broker_with_a_shape_has_a_key_of_its_own(tmp_path):
    shapes = {SECOND: CertificateShape(key_bits=3072)}
    made = make_certificates(tmp_path / "made", [FIRST, SECOND], shapes)
    shared = made.java_broker_key()["ssl.keystore.location"]
    assert made.java_broker_key(FIRST)["ssl.keystore.location"] == shared
    assert made.java_broker_key(SECOND)["ssl.keystore.location"] != shared
    assert length(made, f"broker-{SECOND}") > length(made, "broker")
