"""Certificates and keys in files: written so that a reader finds the old or the new, and nobody else reads keys.

A certificate and its key may share one file, which is then replaced in one step, as the kubelet does with its own.
Where they are two files, the key comes first, and readers take a pair only if it belongs together (`hanse.kit.tls`).
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from hanse.kit.tls import TlsFiles, read_pem
from hanse.kit.trust.shown import UNREADABLE, Shown, shown_of
from hanse.model.errors import FailedPrecondition, InvalidArgument

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
AUTHORITIES_FILE: Final = "ca.pem"


@dataclass(frozen=True, slots=True)
class Issued:
    """What an authority hands out: a certificate with what stands above it, and the authorities to believe."""

    certificate: bytes
    authorities: bytes


def replace_file(path: Path, body: bytes, mode: int) -> None:
    """Write a file in one step; it is on the disk before it is there. Raises InvalidArgument: reason FILE."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        fresh = Path(name)
        try:
            with os.fdopen(number, "wb") as opened:
                opened.write(body)
                opened.flush()
                os.fchmod(opened.fileno(), mode)
                os.fsync(opened.fileno())
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidArgument(f"cannot be written: {error.strerror}", reason="FILE", path=str(path)) from None


def write_issued(files: TlsFiles, issued: Issued, key: bytes) -> None:
    """Replace the files of one end by what was issued. Raises InvalidArgument: reason FILE."""
    assert files.cert is not None
    assert files.key is not None
    if files.ca is not None and not _same(files.ca, issued.authorities):
        replace_file(files.ca, issued.authorities, PUBLIC)
    if files.key == files.cert:
        replace_file(files.cert, issued.certificate + key, PRIVATE)
        return
    replace_file(files.key, key, PRIVATE)
    replace_file(files.cert, issued.certificate, PUBLIC)


def can_be_replaced(files: TlsFiles) -> bool:
    """Whether whoever we are may replace the files: a mounted Secret, and another user's, may not."""
    named = [path for path in (files.cert, files.key) if path is not None]
    return bool(named) and all(os.access(path.parent, os.W_OK) and os.access(path, os.W_OK) for path in named)


def read_shown(path: Path) -> Shown:
    """What the first certificate of a PEM file says. Raises InvalidArgument: reason TLS_INVALID."""
    return shown_of(read_certificates(path)[0])


def read_certificates(path: Path) -> Sequence[x509.Certificate]:
    """At least one. Raises InvalidArgument: reason TLS_INVALID."""
    try:
        return x509.load_pem_x509_certificates(read_pem(path))
    except UNREADABLE:
        raise InvalidArgument("it holds no certificate", reason="TLS_INVALID", path=str(path)) from None


def check_time(files: TlsFiles | None, *, now_ms: int, advice: str) -> None:
    """Raises FailedPrecondition: reason CERTIFICATE_EXPIRED; and InvalidArgument: reason TLS_INVALID.

    Args:
        advice: how one gets a new certificate.
    """
    if files is None or files.cert is None:
        return
    shown = read_shown(files.cert)
    if now_ms >= shown.ends_ms:
        ago_s = (now_ms - shown.ends_ms) // 1_000
        what = f"the certificate of {shown.identity or 'nobody'} is over since {_length(ago_s)}; {advice}"
        raise FailedPrecondition(what, reason="CERTIFICATE_EXPIRED", path=str(files.cert))


def _length(seconds: int) -> str:
    for unit, length in (("days", 2 * 86_400), ("hours", 2 * 3_600), ("minutes", 2 * 60)):
        if seconds >= length:
            return f"{seconds // (length // 2)} {unit}"
    return f"{seconds} s"


def _same(path: Path, body: bytes) -> bool:
    try:
        return path.read_bytes() == body
    except OSError:
        return False
