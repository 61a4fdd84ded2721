"""Where the server is: an argument, or HANSE_SERVER, or the default."""

from collections.abc import Mapping
from typing import Final

from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

DEFAULT_PORT: Final = 7311
DEFAULT_SERVER: Final = f"127.0.0.1:{DEFAULT_PORT}"
SERVER_VARIABLE: Final = "HANSE_SERVER"
TOKEN_VARIABLE: Final = "HANSE_TOKEN"


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
