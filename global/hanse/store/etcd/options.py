"""Where etcd is, who we are to it, and how long we wait.

The address is one line, so that it fits a flag, an environment variable and a log:
``etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…][?ca=FILE[&cert=FILE&key=FILE]]``. With ``ca`` the connection is TLS,
and the members' certificates are checked against it; with ``cert`` and ``key`` we show one too. A password in it is
never part of a message or a ``repr``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

from hanse.model.errors import InvalidArgument

DEFAULT_PORT: Final = 2379
ENDPOINTS_MAX: Final = 9
"""More voting members than any etcd has."""

FORM: Final = "etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…][?ca=FILE[&cert=FILE&key=FILE]]"

_ENDPOINT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdOptions:
    """How to reach etcd.

    Attributes:
        endpoints: ``host:port`` of members; all that there are is best, so that each may die.
        ca, cert, key: PEM files; ``ca`` None: no TLS; ``cert`` and ``key`` None: we show no certificate.
        user, password: "" if etcd knows us by our certificate, or asks nobody.
    """

    endpoints: tuple[str, ...]
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def from_url(cls, url: str) -> "EtcdOptions":
        """Raises InvalidArgument, without showing the password."""
        scheme, _, rest = url.partition("://")
        if scheme != "etcd" or not rest:
            raise _bad("it does not begin with etcd://")
        before, _, query = rest.partition("?")
        login, _, hosts = before.rpartition("@")
        user, _, password = login.partition(":")
        given = _files(query)
        return cls(
            endpoints=_endpoints(hosts.removesuffix("/")),
            ca=given.get("ca"),
            cert=given.get("cert"),
            key=given.get("key"),
            user=unquote(user),
            password=unquote(password),
        )

    def credentials(self) -> tuple[bytes, bytes | None, bytes | None] | None:
        """Authorities, our key, our certificate, as PEM; None without TLS. Raises InvalidArgument naming a file that
        cannot be read."""
        if self.ca is None:
            return None
        key = None if self.key is None else _pem("key", self.key)
        cert = None if self.cert is None else _pem("cert", self.cert)
        return _pem("ca", self.ca), key, cert


def _endpoints(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in text.split(","):
        match = _ENDPOINT.fullmatch(part)
        if match is None or not 0 < int(match[2] or DEFAULT_PORT) < 65_536:
            raise _bad(f"{part!r} is no HOST:PORT")
        found.append(f"{match[1]}:{match[2] or DEFAULT_PORT}")
    if len(found) > ENDPOINTS_MAX:
        raise _bad(f"it names {len(found)} members, the limit is {ENDPOINTS_MAX}")
    if len(set(found)) < len(found):
        raise _bad("it names one member twice")
    return tuple(found)


def _files(query: str) -> Mapping[str, Path]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in given.items():
        if name not in ("ca", "cert", "key") or not value:
            raise _bad(f"{name}={value}: only ca, cert and key may be given, each a file")
    if ("cert" in given) != ("key" in given):
        raise _bad("cert and key are given together or not at all")
    if "cert" in given and "ca" not in given:
        raise _bad("a certificate of ours needs ca, the authorities that etcd's is checked against")
    return {name: Path(value) for name, value in given.items()}


def _pem(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        what = f"store address: {name}={path} cannot be read ({error.strerror}): name a PEM file"
        raise InvalidArgument(what, reason="STORE_ADDRESS") from error


def _bad(why: str) -> InvalidArgument:
    return InvalidArgument(f"store address: {why}: write {FORM}", reason="STORE_ADDRESS")
