"""An authority of the product's own: certificates that say whom they stand for, each good at 127.0.0.1."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hanse.kit.tls import TlsFiles

LIFETIME: Final = timedelta(days=1)
EARLY: Final = timedelta(minutes=5)
"""Certificates are good from a little before now, in case clocks differ."""


class Authority:
    """Issues certificates for `hanse://KIND/NAME`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        made = self._begun(self._name, self._key, LIFETIME)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, file: str, uri: str = "", *, lifetime: timedelta = LIFETIME) -> TlsFiles:
        """A certificate and its key, in files of that name. Issued again they are replaced, as a renewal does."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        if uri:
            names.append(x509.UniformResourceIdentifier(uri))
        made = self._begun(_named(file), key, lifetime)
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        encoding = serialization.Encoding.PEM
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        cert, private = self.folder / f"{file}.pem", self.folder / f"{file}-key.pem"
        _replace(private, key.private_bytes(encoding, form, plain))
        _replace(cert, made.sign(self._key, hashes.SHA256()).public_bytes(encoding))
        return TlsFiles(self.ca, cert, private)

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - EARLY,
            not_valid_after=now + lifetime,
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _replace(path: Path, body: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(body)
    fresh.rename(path)
