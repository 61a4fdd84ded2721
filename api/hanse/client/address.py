"""Where the server is: an argument, or HANSE_SERVER, or the default; and how it is spoken to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hanse.kit.tls import TlsFiles
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

DEFAULT_PORT: Final = 7311
DEFAULT_SERVER: Final = f"127.0.0.1:{DEFAULT_PORT}"
SERVER_VARIABLE: Final = "HANSE_SERVER"
TLS_VARIABLE: Final = "HANSE_TLS"
CA_VARIABLE: Final = "HANSE_CA_FILE"
CERT_VARIABLE: Final = "HANSE_CERT_FILE"
KEY_VARIABLE: Final = "HANSE_KEY_FILE"


def server_address(server: str | None, environment: Mapping[str, str]) -> str:
    """`host:port`; a missing port is the default one.

    Raises:
        InvalidArgument: reason SERVER_ADDRESS_INVALID.
    """
    text = (server or environment.get(SERVER_VARIABLE) or DEFAULT_SERVER).strip()
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    bracketed = host.startswith("[") and host.endswith("]")
    plain = bool(host) and not any(c in "/@?#[]: " for c in host)
    if not (bracketed or plain) or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise InvalidArgument(
            f"{quoted(text)} is not the address of a server; write HOST:PORT, as in {DEFAULT_SERVER}",
            reason="SERVER_ADDRESS_INVALID",
            path="server",
        )
    return f"{host}:{port}"


def tls_files(environment: Mapping[str, str]) -> TlsFiles | None:
    """The files that HANSE_CA_FILE, HANSE_CERT_FILE and HANSE_KEY_FILE name; None, in clear, if none of them is set,
    nor HANSE_TLS, which believes in the authorities of this machine."""
    ca, cert, key = (
        Path(text) if (text := environment.get(name)) else None for name in (CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE)
    )
    wanted = environment.get(TLS_VARIABLE, "") not in ("", "0")
    return None if ca is cert is key is None and not wanted else TlsFiles(ca, cert, key)
