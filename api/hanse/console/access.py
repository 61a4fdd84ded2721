"""Who looks at the console, and which requests are not even asked that.

A browser shows a token once (`/api/login`) and gets it back as a cookie that scripts cannot read, that is sent to
this very site only, and that ends with the browser. So a script that slipped in cannot carry a token away, and a page
elsewhere cannot use it. Beyond that:

- **Writes** carry the header `X-Hanse-Console` and, if the browser names an origin, ours: no form and no link of
  another site can send that.
- **The host that a request names** has to be a name of the loopback where the console listens there: a page whose
  name was made to lead to the loopback (DNS rebinding) does not get in. Elsewhere a caller has to show a token.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from hanse.apiserver.access.callers import Callers
from hanse.apiserver.context import CallContext
from hanse.kit.addresses import is_loopback
from hanse.model.errors import HanseError, PermissionDenied

COOKIE: Final = "hanse-console"
WRITE_HEADER: Final = "x-hanse-console"
TOKEN_CHARS_MAX: Final = 3_800
"""What fits into a cookie."""


class Entry:
    """Decides who calls."""

    def __init__(self, callers: Callers, *, host: str, secure: bool) -> None:
        self._callers = callers
        self._loopback = is_loopback(host)
        self.secure = secure

    async def context(self, request: Request) -> CallContext:
        """Who calls, by the header or the cookie, and with which rights. Raises PermissionDenied."""
        return await self.caller(self._shown(request), peer=request.client.host if request.client else "")

    async def caller(self, authorization: str, *, peer: str = "") -> CallContext:
        """Who shows this. Raises PermissionDenied: reason UNAUTHENTICATED."""
        access = await self._callers.caller([authorization] if authorization else [])
        return CallContext(access.principal, peer, access=access)

    def _shown(self, request: Request) -> str:
        header = request.headers.get("authorization", "")
        if header or COOKIE not in request.cookies:
            return header
        return f"Bearer {request.cookies[COOKIE]}"

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Raises PermissionDenied: reason HOST."""
        if self._loopback and not is_loopback(host_of(headers.get("host", ""))):
            raise PermissionDenied(
                "this console answers on the loopback only; open it as http://127.0.0.1 or http://localhost",
                reason="HOST",
            )

    def check_write(self, headers: Mapping[str, str]) -> None:
        """Raises PermissionDenied: reason CROSS_SITE."""
        origin = headers.get("origin", "")
        foreign = bool(origin) and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
        if foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise PermissionDenied("a page of another site may not change anything here", reason="CROSS_SITE")
        if WRITE_HEADER not in headers:
            raise PermissionDenied(f"a change carries the header {WRITE_HEADER}", reason="CROSS_SITE")


def host_of(text: str) -> str:
    """The host of a Host header, without its port."""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""


def denied(error: HanseError) -> bool:
    """Whether asking again is of no use until somebody shows another token."""
    return isinstance(error, PermissionDenied)
