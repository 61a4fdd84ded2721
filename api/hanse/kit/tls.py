"""TLS of the product's own connections: files in, credentials of gRPC out, and who the other end is.

A process shows a certificate and checks the one that it is shown; all are PEM files that somebody else renews
(cert-manager, a secret store, a script). A server looks at its files again at every handshake, and a client whenever
it dials, so a renewal needs no restart, and a stream that is open lives on: the certificate was good when it began.

Who a certificate stands for is a URI in its subject alternative names, of the form `hanse://KIND/NAME`:

    hanse://agent/POOL      the agent of that pool, and of no other
    hanse://replica/NAME    a global replica
    hanse://user/NAME       somebody who uses the API
"""

import logging
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import grpc

from hanse.model.errors import InvalidArgument

PEM_BYTES_MAX: Final = 1 << 20
_IDENTITY: Final = re.compile(r"hanse://(agent|replica|user)/([A-Za-z0-9][A-Za-z0-9._@-]{0,252})")
_NAMES: Final = "x509_subject_alternative_name"

log = logging.getLogger(__name__)


class Kind(StrEnum):
    """What the holder of a certificate is."""

    AGENT = "agent"
    REPLICA = "replica"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a certificate stands for."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def uri(self) -> str:
        """As certificates name it."""
        return f"hanse://{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of one end.

    Attributes:
        ca: certificates that the other end's must come from. Of a client None: those that the machine trusts; of a
            server None: the other end shows no certificate.
        cert, key: of this end; a client may have none.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def check(self, *, server: bool) -> None:
        """Raises InvalidArgument: reason TLS_INVALID, with the path of a file that cannot be used."""
        if (self.cert is None) is not (self.key is None):
            missing, there = ("key", self.cert) if self.key is None else ("certificate", self.key)
            what = f"it has no {missing} beside it; a certificate and its key go together"
            raise InvalidArgument(what, reason="TLS_INVALID", path=str(there))
        if server and self.cert is None:
            raise InvalidArgument(
                "a server that checks certificates shows one too; name its certificate and key",
                reason="TLS_INVALID",
                path=str(self.ca),
            )
        for file in (self.ca, self.cert, self.key):
            if file is not None:
                read_pem(file)
        check_pair(self)


def read_pem(file: Path) -> bytes:
    """What a PEM file holds. Raises InvalidArgument: reason TLS_INVALID."""
    try:
        with file.open("rb") as opened:
            found = opened.read(PEM_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument(f"cannot be read: {error.strerror}", reason="TLS_INVALID", path=str(file)) from None
    if len(found) > PEM_BYTES_MAX or b"-----BEGIN " not in found:
        raise InvalidArgument("it is no PEM file", reason="TLS_INVALID", path=str(file))
    return found


def check_pair(tls: TlsFiles) -> None:
    """Raises InvalidArgument: reason TLS_INVALID; the key is of another certificate, as between the two steps in
    which two files are renewed."""
    if tls.cert is None or tls.key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(tls.cert, tls.key, password=_no_password)
    except (OSError, ssl.SSLError):
        what = f"it and its key {tls.key} do not belong together"
        raise InvalidArgument(what, reason="TLS_INVALID", path=str(tls.cert)) from None


def _no_password() -> bytes:
    """A key with a password would else be asked for at the terminal."""
    return b""


def channel(address: str, tls: TlsFiles | None, options: Sequence[tuple[str, str | int]]) -> grpc.aio.Channel:
    """A channel to a server, with the files as they are now; in clear if there are none.

    Raises:
        InvalidArgument: reason TLS_INVALID.
    """
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    check_pair(tls)
    ca, cert, key = (None if file is None else read_pem(file) for file in (tls.ca, tls.cert, tls.key))
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert), options=options)


def server_credentials(tls: TlsFiles, *, above: bytes = b"") -> grpc.ServerCredentials:
    """Credentials that follow the files: they are read again at a handshake if they have changed.

    Files that cannot be used, as while they are being written, leave what was read before.

    Args:
        above: PEM of certificates that are shown with the server's own.

    Raises:
        InvalidArgument: reason TLS_INVALID.
    """
    tls.check(server=True)
    follow = _Followed(tls, above)
    return grpc.dynamic_ssl_server_credentials(
        follow.configuration,
        follow,  # type: ignore[arg-type]  # None means no change
        require_client_authentication=tls.ca is not None,
    )


class _Followed:
    """Looks at the files' times, called by gRPC at every handshake."""

    def __init__(self, tls: TlsFiles, above: bytes) -> None:
        self._tls = tls
        self._above = above
        self._seen = self._stamps()
        self.configuration = self._read()

    def __call__(self) -> "grpc.ServerCertificateConfiguration | None":
        """The new configuration, None if nothing has changed."""
        stamps = self._stamps()
        if stamps == self._seen:
            return None
        try:
            check_pair(self._tls)
            found = self._read()
        except InvalidArgument as error:
            log.warning("tls_files_unusable", extra={"cause": str(error)})
            return None
        if stamps != self._stamps():
            return None  # they were replaced while they were read
        self.configuration, self._seen = found, stamps
        log.info("tls_files_renewed", extra={"cert": str(self._tls.cert)})
        return self.configuration

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        found: list[tuple[int, int, int]] = []
        for file in (self._tls.ca, self._tls.cert, self._tls.key):
            try:
                stat = file.stat() if file is not None else None
            except OSError:
                stat = None
            found.append((0, 0, 0) if stat is None else (stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return tuple(found)

    def _read(self) -> grpc.ServerCertificateConfiguration:
        assert self._tls.cert is not None
        assert self._tls.key is not None
        ca = None if self._tls.ca is None else read_pem(self._tls.ca)
        pair = (read_pem(self._tls.key), read_pem(self._tls.cert) + self._above)
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=ca)


def identity_of(auth: Mapping[str, Iterable[bytes]]) -> Identity | None:
    """Whom the other end's certificate stands for, by a call's `auth_context`; None if it shows none of ours.

    One that names several stands for none of them: nobody is to choose who he is.
    """
    return sole_identity(name.decode(errors="replace") for name in auth.get(_NAMES, ()))


def sole_identity(names: Iterable[str]) -> Identity | None:
    """The identity among alternative names, None unless there is exactly one."""
    found = [match for match in map(_IDENTITY.fullmatch, names) if match is not None]
    return Identity(Kind(found[0][1]), found[0][2]) if len(found) == 1 else None
