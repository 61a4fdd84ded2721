"""Who calls, and with which rights: from what a call shows to an `Access`.

A call shows a certificate, a bearer token, or nothing. Static tokens come from a file, others from an OpenID Connect
issuer; what each of them says is believed only while it says so: whoever holds a stream open is looked at again.

Names of an issuer's users and groups begin with a prefix of their own (`oidc:`), so that nobody becomes a user of the
file, or of a certificate, by choosing a name.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from hanse.apiserver.access.policy import Policy
from hanse.apiserver.access.rights import Access, unbounded
from hanse.apiserver.context import ANONYMOUS
from hanse.apiserver.credentials import UNAUTHENTICATED, Credentials
from hanse.kit.followed import Followed
from hanse.kit.tls import Identity, Kind
from hanse.model.errors import PermissionDenied

AUTHORIZATION: Final = "authorization"
TOKEN_CHARS_MAX: Final = 8_192
"""A longer one is refused before anybody looks into it."""

CALLERS_KEPT_MAX: Final = 10_000

_SCHEME: Final = "bearer "


class Issuer(Protocol):
    """Whose tokens are believed beside those of the file."""

    def claims(self, token: str) -> bool:
        """Whether the token has the form of this issuer's, so that it decides, and nobody else."""
        ...

    async def user(self, token: str) -> tuple[str, tuple[str, ...], int]:
        """Name, groups, and until when (Unix time in seconds). Raises PermissionDenied: reason UNAUTHENTICATED."""
        ...


class Callers:
    """Tells who calls.

    Args:
        credentials: as they are now.
        policy: as it is now.

    Attributes:
        files: that these come from, for whoever tells what is wrong with them.
    """

    def __init__(
        self, credentials: Callable[[], Credentials], policy: Callable[[], Policy], issuer: Issuer | None = None
    ) -> None:
        self._credentials = credentials
        self._policy = policy
        self._issuer = issuer
        self.files: tuple[Followed[Any], ...] = ()
        self._known: OrderedDict[tuple[str, tuple[str, ...]], Access] = OrderedDict()
        self._known_by: Policy | None = None

    def _access(self, name: str, groups: tuple[str, ...] = (), expires_s: int = 0) -> Access:
        """The rights of somebody, as the policy that is in force now has them; kept for those who called last."""
        policy = self._policy()
        if policy is not self._known_by:
            self._known.clear()
            self._known_by = policy
        found = self._known.get((name, groups))
        if found is None:
            found = self._known[name, groups] = policy.access(name, groups)
            if len(self._known) > CALLERS_KEPT_MAX:
                self._known.popitem(last=False)
        return replace(found, expires_s=expires_s) if expires_s else found

    def files_unusable(self) -> int:
        """How many of the files cannot be used as they are."""
        return sum(bool(file.look()) for file in self.files)

    @property
    def open(self) -> bool:
        """Whoever reaches the server may do everything."""
        return self._issuer is None and self._credentials().open

    @property
    def certificates(self) -> bool:
        """Everybody shows a certificate."""
        return self._credentials().certificates

    async def caller(self, sent: Sequence[str], shown: Identity | None = None) -> Access:
        """Who calls, by every value of the `authorization` metadata and the certificate.

        Raises:
            PermissionDenied: reason UNAUTHENTICATED.
        """
        if self.open:
            return unbounded(ANONYMOUS)
        if shown is not None and shown.kind is not Kind.USER:
            raise unauthenticated(
                f"the certificate is of {shown}, and opens no API; call with one of hanse://user/NAME"
            )
        if len(sent) > 1:
            raise unauthenticated(f"the call has {len(sent)} authorizations; send one")
        if shown is not None and not sent:
            return self._access(shown.name)
        return await self._holder(self._token(sent[0] if sent else ""))

    def _token(self, authorization: str) -> str:
        if not authorization and self.certificates and not self.tokens:
            what = "the certificate names no user; call with one whose alternative names have hanse://user/NAME"
            raise unauthenticated(what)
        if not authorization.lower().startswith(_SCHEME):
            raise unauthenticated(
                "this server asks for a token: set HANSE_TOKEN or HANSE_TOKEN_FILE, or send "
                "`authorization: Bearer TOKEN`"
            )
        token = authorization[len(_SCHEME) :].strip()
        if len(token) > TOKEN_CHARS_MAX:
            raise unauthenticated(
                f"the token has more than {TOKEN_CHARS_MAX:,} characters; ask for one with fewer claims"
            )
        return token

    @property
    def tokens(self) -> bool:
        """Some tokens are known."""
        return self._issuer is not None or bool(self._credentials().principals)

    async def _holder(self, token: str) -> Access:
        """A token that has the form of the issuer's is the issuer's to judge; it is never looked for in the file."""
        if self._issuer is not None and self._issuer.claims(token):
            name, groups, expires_s = await self._issuer.user(token)
            return self._access(name, groups, expires_s)
        found = self._credentials().holder(token)
        if found is None:
            raise unauthenticated("this server does not know the token")
        return self._access(found.name, found.groups)


def unauthenticated(what: str) -> PermissionDenied:
    """The refusal of somebody of whom it is not known who they are."""
    return PermissionDenied(what, reason=UNAUTHENTICATED)
