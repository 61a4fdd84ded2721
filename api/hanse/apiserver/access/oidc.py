"""Tokens of an OpenID Connect issuer: whose they are, if they are good.

What a token says of itself is believed in nothing but which key it wants. The algorithm has to be one of a pinned
list of asymmetric ones and fit that key; `none`, shared secrets, and headers that bring keys or places of keys along
lead nowhere. Issuer, audience and expiry are needed; the clocks of issuer and server may differ by a named skew.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jwt

from hanse.apiserver.access.callers import TOKEN_CHARS_MAX, unauthenticated
from hanse.apiserver.access.keys import KeyCache
from hanse.model.errors import Unavailable
from hanse.model.names import quoted

FAMILIES: Final[Mapping[str, frozenset[str]]] = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "EC/P-256": frozenset({"ES256"}),
    "EC/P-384": frozenset({"ES384"}),
    "EC/P-521": frozenset({"ES512"}),
    "OKP/Ed25519": frozenset({"EdDSA"}),
}
"""Algorithms by the kind of key; there are no others."""

ALGORITHMS: Final = frozenset().union(*FAMILIES.values())
TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
KEYS_MAX: Final = 64
KID_CHARS_MAX: Final = 256
RSA_BITS_MIN: Final = 2_048
RSA_BITS_MAX: Final = 8_192
GROUPS_MAX: Final = 512
GROUP_CHARS_MAX: Final = 256

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+|:=-]{0,127}")
_BEGINNING: Final = "ey"
"""Of every text in base64 that begins with a brace and a quote or a blank, as a JSON object does."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OidcTerms:
    """What an issuer's tokens must say.

    Attributes:
        audiences: one of which a token is for.
        user_claim, groups_claim: where user and groups are named.
        prefix: of both, so that they are never those of another source.
        skew_s: by which clocks may differ.
    """

    issuer: str
    audiences: tuple[str, ...]
    user_claim: str = "sub"
    groups_claim: str = "groups"
    prefix: str = "oidc:"
    skew_s: int = 60


@dataclass(frozen=True, slots=True)
class Key:
    """A public key of the issuer, as its set has it.

    Attributes:
        kid: "" if it has none.
        algorithms: that fit it.
        made: what checks signatures, by algorithm, once it was needed.
    """

    kid: str
    algorithms: frozenset[str]
    data: Mapping[str, Any]
    made: dict[str, jwt.PyJWK] = field(default_factory=dict, compare=False)

    def checks(self, algorithm: str) -> jwt.PyJWK:
        """What checks signatures. Raises whatever the library makes of it for a key that is none."""
        if algorithm not in self.made:
            self.made[algorithm] = jwt.PyJWK(dict(self.data), algorithm)
        return self.made[algorithm]


Keys = tuple[Key, ...]


def parse_keys(text: bytes) -> Keys:
    """The keys of a set that can check signatures; what is anything else (a shared secret, a key to encrypt with, a
    weak one) is left out.

    Raises:
        Unavailable: it is no key set.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise Unavailable(f"it is no set of at most {KEYS_MAX} keys", reason="KEYS_INVALID")
    keys = tuple(key for data in listed if (key := _key(data)) is not None)
    if not keys:
        raise Unavailable("it has no key that checks signatures", reason="KEYS_INVALID")
    return keys


def _key(data: object) -> Key | None:
    if not isinstance(data, dict) or data.get("use", "sig") != "sig":
        return None
    kind = str(data.get("kty", ""))
    family = FAMILIES.get(kind if kind == "RSA" else f"{kind}/{data.get('crv', '')}")
    operations, kid = data.get("key_ops", ["verify"]), data.get("kid", "")
    if family is None or not isinstance(operations, list) or "verify" not in operations:
        return None
    if not isinstance(kid, str) or len(kid) > KID_CHARS_MAX or "d" in data:
        return None
    algorithms = family & {data["alg"]} if isinstance(data.get("alg"), str) else family
    key = Key(kid, algorithms, data)
    return key if algorithms and _usable(key) else None


def _usable(key: Key) -> bool:
    try:
        bits = getattr(key.checks(min(key.algorithms)).key, "key_size", 0)
    except Exception:
        log.warning("issuer_key_left_out", extra={"kid": key.kid})
        return False
    return key.data["kty"] != "RSA" or RSA_BITS_MIN <= bits <= RSA_BITS_MAX


class OidcTokens:
    """Judges tokens; see `callers.Issuer`."""

    def __init__(self, terms: OidcTerms, keys: KeyCache[Keys]) -> None:
        self._terms = terms
        self._keys = keys

    def claims(self, token: str) -> bool:
        """Whether the token has the form of one of an issuer's."""
        return token.startswith(_BEGINNING) and token.count(".") >= 2

    async def user(self, token: str) -> tuple[str, tuple[str, ...], int]:
        """Name, groups, and until when (Unix time in seconds).

        Raises:
            PermissionDenied: reason UNAUTHENTICATED.
            Unavailable: reason KEYS_UNAVAILABLE.
        """
        algorithm, kid = _wanted(token)
        key = _chosen(await self._keys.keys(), kid, algorithm)
        if key is None:
            key = _chosen(await self._keys.newer(), kid, algorithm)
        if key is None:
            what = f"no key {quoted(kid)} of {algorithm}" if kid else f"no sole key of {algorithm}"
            raise unauthenticated(f"the issuer has {what}; get a new token")
        said = self._checked(token, key, algorithm)
        return self._name(said), self._groups(said), int(said["exp"]) + self._terms.skew_s

    def _checked(self, token: str, key: Key, algorithm: str) -> dict[str, Any]:
        """What a good token says."""
        terms = self._terms
        try:
            return jwt.decode(
                token,
                key.checks(algorithm),
                algorithms=[algorithm],
                audience=list(terms.audiences),
                issuer=terms.issuer,
                leeway=terms.skew_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise unauthenticated("the token has expired; get a new one") from None
        except jwt.ImmatureSignatureError:
            raise unauthenticated("the token is not good yet; is a clock wrong?") from None
        except jwt.InvalidAudienceError:
            raise unauthenticated(f"the token is not for {' or '.join(terms.audiences)}") from None
        except jwt.InvalidIssuerError:
            raise unauthenticated(f"the token is not of {terms.issuer}") from None
        except jwt.MissingRequiredClaimError as error:
            raise unauthenticated(f"the token does not say {quoted(error.claim)}") from None
        except jwt.InvalidSignatureError:
            raise unauthenticated("the token is not signed by the issuer") from None
        except Exception:  # what hostile bytes make of a parser is theirs to find out, and never an error of ours
            raise unauthenticated("the token cannot be read") from None

    def _name(self, said: Mapping[str, Any]) -> str:
        claim = self._terms.user_claim
        name = said.get(claim)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise unauthenticated(f"the token's {quoted(claim)} is not a name of letters, digits and . _ @ + | : = -")
        if claim == "email" and said.get("email_verified", True) is not True:
            raise unauthenticated("the issuer has not verified the token's email")
        return f"{self._terms.prefix}{name}"

    def _groups(self, said: Mapping[str, Any]) -> tuple[str, ...]:
        claim = self._terms.groups_claim
        found = said.get(claim, [])
        groups: Sequence[object] = [found] if isinstance(found, str) else found if isinstance(found, list) else [None]
        if len(groups) > GROUPS_MAX or not all(isinstance(g, str) and 0 < len(g) <= GROUP_CHARS_MAX for g in groups):
            what = f"at most {GROUPS_MAX} texts of 1 to {GROUP_CHARS_MAX} characters"
            raise unauthenticated(f"the token's {quoted(claim)} is not a list of {what}")
        return tuple(f"{self._terms.prefix}{group}" for group in groups)


def _wanted(token: str) -> tuple[str, str]:
    """Algorithm and key that a token asks to be judged by. Raises PermissionDenied."""
    if len(token) > TOKEN_CHARS_MAX:
        raise unauthenticated(f"the token has more than {TOKEN_CHARS_MAX:,} characters")
    try:
        header = jwt.get_unverified_header(token)
    except Exception:
        raise unauthenticated("the token cannot be read") from None
    algorithm, kid, kind = header.get("alg"), header.get("kid", ""), header.get("typ", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise unauthenticated(
            "the token is signed by no algorithm that is taken: RS, PS or ES with 256 to 512, EdDSA"
        )
    if not isinstance(kid, str) or len(kid) > KID_CHARS_MAX:
        raise unauthenticated(f"the token's key id is no text of at most {KID_CHARS_MAX} characters")
    if "crit" in header or "b64" in header or not isinstance(kind, str) or kind.lower() not in TYPES:
        raise unauthenticated("the token is not one that lets somebody in")
    return algorithm, kid


def _chosen(keys: Keys, kid: str, algorithm: str) -> Key | None:
    """The key of that id, or the only one that fits if the token names none."""
    fitting = [key for key in keys if algorithm in key.algorithms and (not kid or key.kid == kid)]
    return fitting[0] if len(fitting) == 1 or (fitting and kid) else None
