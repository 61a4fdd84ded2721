"""Where the MQTT broker is, and who we are to it.

The address is one line: ``mqtt://[USER:PASSWORD@]HOST[:PORT]`` or, with TLS,
``mqtts://[USER:PASSWORD@]HOST[:PORT][?ca=FILE][&cert=FILE&key=FILE]``. Without ``ca`` the broker's certificate is
checked against the machine's authorities; with ``cert`` and ``key`` we show one too. A password in it is never part
of a message or a ``repr``.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from hanse.model.errors import InvalidArgument

PORT: Final = 1883
PORT_TLS: Final = 8883
KEEPALIVE_S: Final = 10
FORM: Final = "mqtt[s]://[USER:PASSWORD@]HOST[:PORT][?ca=FILE][&cert=FILE&key=FILE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttOptions:
    """How to reach the broker.

    Attributes:
        ca, cert, key: PEM files; ``ca`` None: the machine's authorities; ``cert`` and ``key`` None: we show none.
        user, password: "" if the broker knows us by our certificate, or asks nobody.
        keepalive_s: the broker gives us up, and publishes our will, after one and a half times this; we give it up
            after twice.
    """

    host: str
    port: int = PORT
    tls: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    keepalive_s: int = KEEPALIVE_S

    @classmethod
    def from_url(cls, url: str) -> "MqttOptions":
        """Raises InvalidArgument, without showing the password."""
        scheme, _, rest = url.partition("://")
        if scheme not in ("mqtt", "mqtts") or not rest:
            raise _bad("it does not begin with mqtt:// or mqtts://")
        before, _, query = rest.partition("?")
        login, _, address = before.rpartition("@")
        user, _, password = login.partition(":")
        host, port = _address(address)
        tls = scheme == "mqtts"
        given = _files(query)
        if given and not tls:
            raise _bad("certificates need mqtts://")
        return cls(
            host=host,
            port=port or (PORT_TLS if tls else PORT),
            tls=tls,
            ca=given.get("ca"),
            cert=given.get("cert"),
            key=given.get("key"),
            user=unquote(user),
            password=unquote(password),
        )

    @property
    def endpoint(self) -> str:
        """``host:port``, for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """None without TLS. Raises InvalidArgument naming a file that cannot be used."""
        if not self.tls:
            return None
        try:
            made = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                made.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(f"{path}" for path in (self.ca, self.cert, self.key) if path is not None)
            what = f"bus address: one of {files} cannot be used ({error}): name PEM files that can be read"
            raise InvalidArgument(what, reason="BUS_ADDRESS") from error
        return made


def _address(text: str) -> tuple[str, int]:
    """Host and port; port 0 if none is given."""
    try:
        parts = urlsplit(f"//{text.removesuffix('/')}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.path or port == 0:
        raise _bad(f"{text!r} is no HOST[:PORT]")
    return host, port or 0


def _files(query: str) -> Mapping[str, Path]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in given.items():
        if name not in ("ca", "cert", "key") or not value:
            raise _bad(f"{name}={value}: only ca, cert and key may be given, each a file")
    if ("cert" in given) != ("key" in given):
        raise _bad("cert and key are given together or not at all")
    return {name: Path(value) for name, value in given.items()}


def _bad(why: str) -> InvalidArgument:
    return InvalidArgument(f"bus address: {why}: write {FORM}", reason="BUS_ADDRESS")
