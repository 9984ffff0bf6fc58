"""Certificates of a lab cluster, as key stores for Java and as PEM files for librdkafka."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["CertificateShape", "Certificates", "make_certificates"]

_STORE_PASSWORD: Final = "lab-store"
_KEY_BITS: Final = 2048


@dataclass(frozen=True, slots=True)
class CertificateShape:
    """What makes a certificate longer or shorter than another, and so each TLS handshake with it."""

    more_letters: int = 0
    """Letters added to the common name: a byte each."""
    key_bits: int = _KEY_BITS


@dataclass(frozen=True, slots=True)
class Certificates:
    """A folder with an authority and keys for the brokers and for the clients."""

    folder: Path

    def java_trust(self) -> dict[str, str]:
        """Return the settings that make Java believe the authority."""
        return {
            "ssl.truststore.location": str(self.folder / "trust.p12"),
            "ssl.truststore.password": _STORE_PASSWORD,
            "ssl.truststore.type": "PKCS12",
        }

    def java_broker_key(self, host: str = "") -> dict[str, str]:
        """Return the settings of a broker's own key: its host's, where it has one of its own."""
        own = f"broker-{host}"
        return self._java_key(own if (self.folder / f"{own}.p12").exists() else "broker")

    def java_client_key(self) -> dict[str, str]:
        """Return the settings of a client's own key."""
        return self._java_key("client")

    def pem_trust(self) -> dict[str, str]:
        """Return the settings that make librdkafka believe the authority."""
        return {"ssl.ca.location": str(self.folder / "authority.pem")}

    def pem_client_key(self) -> dict[str, str]:
        """Return librdkafka's settings of a client's own key."""
        return {
            "ssl.certificate.location": str(self.folder / "client.pem"),
            "ssl.key.location": str(self.folder / "client.key"),
        }

    def _java_key(self, name: str) -> dict[str, str]:
        return {
            "ssl.keystore.location": str(self.folder / f"{name}.p12"),
            "ssl.keystore.password": _STORE_PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "ssl.key.password": _STORE_PASSWORD,
        }


def make_certificates(
    folder: Path,
    addresses: Sequence[str],
    shapes: Mapping[str, CertificateShape] | None = None,
) -> Certificates:
    """Make an authority and two RSA keys; the brokers' certificate names all `addresses`.

    A broker whose address is in `shapes` gets a certificate of its own, of that shape.
    """
    folder.mkdir()
    same = CertificateShape()
    authority_key = _key(same)
    authority = _certificate("brokerwire lab authority", authority_key, None)
    (folder / "authority.pem").write_bytes(authority.public_bytes(Encoding.PEM))
    trusted = pkcs12.PKCS12Certificate(authority, b"authority")
    encryption = BestAvailableEncryption(_STORE_PASSWORD.encode())
    (folder / "trust.p12").write_bytes(pkcs12.serialize_java_truststore([trusted], encryption))
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    own = {f"broker-{address}": shape for address, shape in (shapes or {}).items()}
    for name, shape in {"broker": same, "client": same, **own}.items():
        key = _key(shape)
        # The addresses differ in length: in a name they would make every shape differ.
        common_name = f"brokerwire lab {name.partition('-')[0]}" + "x" * shape.more_letters
        certificate = _certificate(common_name, key, (authority, authority_key), names)
        store = pkcs12.serialize_key_and_certificates(
            name.encode(), key, certificate, [authority], encryption
        )
        (folder / f"{name}.p12").write_bytes(store)
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
    return Certificates(folder)


def _key(shape: CertificateShape) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=shape.key_bits)


def _certificate(
    common_name: str,
    key: rsa.RSAPrivateKey,
    issuer: tuple[x509.Certificate, rsa.RSAPrivateKey] | None,
    addresses: Sequence[x509.IPAddress] = (),
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if addresses:
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    return builder.sign(key if issuer is None else issuer[1], hashes.SHA256())
