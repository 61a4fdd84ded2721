"""The certificate that the other end of a call shows: whom it stands for, its number, and how long it is good."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from hanse.kit.tls import Identity, sole_identity

UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    InvalidSignature,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What reading a certificate or a request of a stranger may raise: not all of the library's are ValueErrors."""

_PEM: Final = "x509_pem_cert"
_KNOWN_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate.

    Attributes:
        identity: None if it names nobody of ours, or several.
        serial: its number in lower-case hexadecimal, as `openssl x509 -serial` shows it in capitals.
        begins_ms, ends_ms: from when until when it is good; Unix time.
        hosts: names and addresses that it is good for as a server.
    """

    identity: Identity | None
    serial: str
    begins_ms: int
    ends_ms: int
    hosts: tuple[str, ...] = ()


Barred = Callable[[Shown], bool]
"""Whether a certificate is believed no more."""


def nobody_is_barred(shown: Shown) -> bool:
    """Of a server without a store."""
    return False


def shown_by(auth: Mapping[str, Iterable[bytes]]) -> Shown | None:
    """The certificate of a call, by its `auth_context`; the handshake has checked it. None if there is none."""
    pem = next(iter(auth.get(_PEM, ())), None)
    return None if pem is None else _shown(pem)


@lru_cache(_KNOWN_MAX)
def _shown(pem: bytes) -> Shown | None:
    try:
        return shown_of(x509.load_pem_x509_certificate(pem))
    except UNREADABLE:
        return None


def shown_of(cert: x509.Certificate) -> Shown:
    """What a certificate says."""
    names = alternative_names(cert.extensions)
    return Shown(
        identity=sole_identity(name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)),
        serial=f"{cert.serial_number:x}",
        begins_ms=_ms(cert.not_valid_before_utc),
        ends_ms=_ms(cert.not_valid_after_utc),
        hosts=tuple(str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)),
    )


def alternative_names(extensions: x509.Extensions) -> list[x509.GeneralName]:
    """Names of the subject, none without that extension."""
    try:
        return list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1_000)
