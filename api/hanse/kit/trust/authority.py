"""An authority of the product's own, for a federation that brings none: one key in a file, which signs.

It signs for identities (`hanse://KIND/NAME`), each certificate for one. An agent's and a user's are good for a client
alone and name no host, so that nobody can use one to play a server. A replica's is good for both. The common name is
what brokers and etcd know their users by: the pool's for an agent, `hanse-global` for a replica, and for a user
something that cannot be either.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hanse.kit.tls import Identity, Kind, read_pem
from hanse.kit.trust.asking import key_digest, private_pem
from hanse.kit.trust.files import PRIVATE, PUBLIC, Issued, read_certificates, replace_file
from hanse.kit.trust.shown import UNREADABLE
from hanse.model.errors import AlreadyExists, InvalidArgument

AUTHORITY_DAYS: Final = 3_650
SKEW_MAX_S: Final = 300
"""A certificate is good from so long before it was made, or a quarter of its lifetime, in case clocks differ."""

REPLICAS_COMMON_NAME: Final = "hanse-global"
COMMON_NAME_CHARS_MAX: Final = 64
"""More than X.509 has room for: the certificate then has none, and its pool cannot use a broker by it."""


class Authority:
    """Signs certificates.

    Args:
        cert, key: of the authority.
        believed: file of all authorities that are to be believed, read and handed out with each certificate; None for
            this one alone.
    """

    def __init__(self, cert: x509.Certificate, key: ec.EllipticCurvePrivateKey, believed: Path | None = None) -> None:
        self._cert = cert
        self._key = key
        self._pem = cert.public_bytes(serialization.Encoding.PEM)
        self._believed = believed

    @property
    def pin(self) -> str:
        """What the authority is known by: SHA-256 of its public key, in hexadecimal."""
        return key_digest(self._key.public_key())

    @property
    def certificate(self) -> bytes:
        """Its own certificate as PEM."""
        return self._pem

    @property
    def ends_ms(self) -> int:
        """Until when it is good; Unix time."""
        return int(self._cert.not_valid_after_utc.timestamp() * 1_000)

    def signs(self, cert: x509.Certificate) -> bool:
        """Whether a certificate is one of its own."""
        try:
            cert.verify_directly_issued_by(self._cert)
        except UNREADABLE:
            return False
        return True

    def sign(
        self,
        public: ec.EllipticCurvePublicKey,
        identity: Identity,
        *,
        now_ms: int,
        lifetime_s: float,
        hosts: Sequence[str] = (),
        after_ms: int = 0,
    ) -> Issued:
        """A certificate for an identity.

        Args:
            hosts: names and addresses at which it is a server; only a replica is one.
            after_ms: it begins later than that; those until then are revoked.

        Raises:
            InvalidArgument: reason HOST_INVALID; or TLS_INVALID: the authorities cannot be read.
        """
        now = _time(now_ms)
        begins = max(now - timedelta(seconds=min(SKEW_MAX_S, lifetime_s / 4)), _time(after_ms) + timedelta(seconds=1))
        ends = min(now + timedelta(seconds=lifetime_s), self._cert.not_valid_after_utc)
        server = identity.kind is Kind.REPLICA
        names = [x509.UniformResourceIdentifier(identity.uri), *(_host(host) for host in hosts if server)]
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if server else [])]
        made = _begun(_subject(identity), self._cert.subject, public, begins, ends)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(_key_usage(signs=False), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=not list(_subject(identity)))
        made = made.add_extension(_issued_by(self._key.public_key()), critical=False)
        signed = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return Issued(signed, self._pem if self._believed is None else read_pem(self._believed))


def begin(cert_file: Path, key_file: Path, name: str, *, now_ms: int) -> Authority:
    """Make an authority, and keep it in two new files.

    Raises:
        AlreadyExists: reason AUTHORITY_EXISTS; nothing is ever written over.
        InvalidArgument: reason FILE.
    """
    for path in (cert_file, key_file):
        if path.exists():
            what = f"{path} is there already; an authority that is replaced leaves every certificate unbelieved"
            raise AlreadyExists(what, reason="AUTHORITY_EXISTS", path=str(path))
    key, now = ec.generate_private_key(ec.SECP256R1()), _time(now_ms)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"hanse {name}"[:COMMON_NAME_CHARS_MAX])])
    ends = now + timedelta(days=AUTHORITY_DAYS)
    made = _begun(subject, subject, key.public_key(), now - timedelta(seconds=SKEW_MAX_S), ends)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_key_usage(signs=True), critical=True)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    authority = Authority(made.sign(key, hashes.SHA256()), key)
    replace_file(key_file, private_pem(key), PRIVATE)
    replace_file(cert_file, authority.certificate, PUBLIC)
    return authority


def read_authority(cert_file: Path, key_file: Path, believed: Path | None = None) -> Authority:
    """The authority that is kept in two files. Raises InvalidArgument: reason TLS_INVALID."""
    cert = read_certificates(cert_file)[0]
    try:
        key = serialization.load_pem_private_key(read_pem(key_file), None)
    except (ValueError, TypeError):
        raise InvalidArgument(
            "it holds no key without a password", reason="TLS_INVALID", path=str(key_file)
        ) from None
    public = cert.public_key()
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(public, ec.EllipticCurvePublicKey):
        raise InvalidArgument("an authority's key is on an elliptic curve", reason="TLS_INVALID", path=str(key_file))
    if key_digest(key.public_key()) != key_digest(public):
        raise InvalidArgument(f"it is not the key of {cert_file}", reason="TLS_INVALID", path=str(key_file))
    if not can_sign(cert):
        raise InvalidArgument("it is no authority's certificate", reason="TLS_INVALID", path=str(cert_file))
    if believed is not None:
        read_pem(believed)
    return Authority(cert, key, believed)


def can_sign(cert: x509.Certificate) -> bool:
    """Whether a certificate is an authority's."""
    try:
        return cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, *UNREADABLE):
        return False


def pins_of(chain: Sequence[bytes]) -> dict[str, bytes]:
    """The authorities of a chain of certificates in DER: each by its pin, as PEM. What cannot be read is left out."""
    found: dict[str, bytes] = {}
    for der in chain:
        try:
            cert = x509.load_der_x509_certificate(der)
            public = cert.public_key()
            if can_sign(cert) and isinstance(public, ec.EllipticCurvePublicKey):
                found[key_digest(public)] = cert.public_bytes(serialization.Encoding.PEM)
        except UNREADABLE:
            continue
    return found


def _begun(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=begins,
        not_valid_after=max(ends, begins + timedelta(seconds=1)),
    )


def _subject(identity: Identity) -> x509.Name:
    name = {Kind.AGENT: identity.name, Kind.REPLICA: REPLICAS_COMMON_NAME, Kind.USER: identity.uri}[identity.kind]
    if len(name) > COMMON_NAME_CHARS_MAX:
        return x509.Name([])
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _issued_by(key: ec.EllipticCurvePublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError:
        what = f"{text[:64]!r} is no name or address of a host"
        raise InvalidArgument(what, reason="HOST_INVALID", path="--host") from None


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1_000, UTC)
