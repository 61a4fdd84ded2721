"""Tokens as an attacker makes them: of another issuer or algorithm, too old, too large, with a key of their own."""

import hmac
import json
import time
from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.apiserver.access.callers import TOKEN_CHARS_MAX, Callers
from hanse.apiserver.access.keys import KeyCache
from hanse.apiserver.access.oidc import ALGORITHMS, GROUPS_MAX, OidcTerms, OidcTokens, parse_keys
from hanse.apiserver.access.policy import TRUSTING
from hanse.apiserver.credentials import Credentials, parse_tokens
from hanse.kit.clock import SystemClock
from hanse.model.errors import HanseError, PermissionDenied, Unavailable
from tests.unit.apiserver.access.issuers import (
    AUDIENCE,
    EC_KEY,
    ED_KEY,
    ISSUER,
    OTHER_KEY,
    RSA_KEY,
    WEAK_KEY,
    claims,
    jwk,
    key_set,
    pem,
    raw,
    token,
)

SET = key_set(jwk(RSA_KEY, "k1"), jwk(EC_KEY, "e1"), jwk(ED_KEY, "d1"))


def issuer(published: Callable[[], bytes] = lambda: SET, **terms: object) -> OidcTokens:
    async def read() -> tuple[object, ...]:
        return parse_keys(published())

    found = OidcTerms(ISSUER, (AUDIENCE,), **terms)  # type: ignore[arg-type]
    return OidcTokens(found, KeyCache(read, SystemClock(), asked_again_s=0.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA_KEY, "RS256", "k1"), (RSA_KEY, "PS512", "k1"), (EC_KEY, "ES256", "e1"), (ED_KEY, "EdDSA", "d1")],
)
async def test_a_good_token_says_who_it_is_of(key: object, algorithm: str, kid: str) -> None:
    name, groups, expires_s = await issuer().user(token(key, algorithm, kid=kid))
    assert (name, groups) == ("oidc:ana", ("oidc:vision",))
    assert expires_s > time.time()


NOW = int(time.time())
REFUSED = {
    "another issuer": token(iss="https://login.example.com/realm"),
    "an issuer with a slash more": token(iss=f"{ISSUER}/"),
    "another audience": token(aud="grafana"),
    "other audiences": token(aud=["grafana", "argo"]),
    "no audience": token(aud=None),
    "no issuer": token(iss=None),
    "no expiry": token(exp=None),
    "no user": token(sub=None),
    "expired": token(exp=NOW - 120),
    "not good yet": token(nbf=NOW + 36_000),
    "issued in the future": token(iat=NOW + 36_000),
    "expiry beyond numbers": raw({"alg": "RS256", "kid": "k1"}, b'{"exp": 1e999}'),
    "signed by another key under a known id": token(OTHER_KEY),
    "signed by another key under an id of its own": token(OTHER_KEY, kid="mine"),
    "a kid of an elliptic key on an RSA signature": token(kid="e1"),
    "no kid where two keys could be meant": token(kid=None, headers={"alg": "RS256"}) + "x",
    "a kid that is a path": token(OTHER_KEY, kid="../../../../dev/null"),
    "a kid that is an address": token(OTHER_KEY, kid="http://169.254.169.254/keys"),
    "a kid that is a query": token(OTHER_KEY, kid="k1' OR '1'='1"),
    "a kid that is long": token(kid="k" * 300),
    "an address of keys": token(OTHER_KEY, kid=None, headers={"jku": "http://evil.example/keys"}),
    "a key of its own": token(OTHER_KEY, kid=None, headers={"jwk": jwk(OTHER_KEY, "k1")}),
    "a chain of its own": token(OTHER_KEY, headers={"x5u": "http://evil.example/x", "x5c": ["MIIB"]}),
    "none": raw({"alg": "none", "kid": "k1"}, claims()),
    "None": raw({"alg": "None", "kid": "k1"}, claims()),
    "nOnE": raw({"alg": "nOnE"}, claims()),
    "no algorithm": raw({"kid": "k1"}, claims()),
    "a number for an algorithm": raw({"alg": 256, "kid": "k1"}, claims()),
    "a list for an algorithm": raw({"alg": ["RS256"], "kid": "k1"}, claims()),
    "a number for a kid": raw({"alg": "RS256", "kid": 1}, claims()),
    "an algorithm of secrets": token(b"k" * 32, "HS256"),
    "critical extensions": raw({"alg": "RS256", "kid": "k1", "crit": ["exp"]}, claims()),
    "an unencoded payload": raw({"alg": "RS256", "kid": "k1", "b64": False}, claims()),
    "a token of another type": token(headers={"typ": "logout+jwt"}),
    "a name with a slash": token(sub="../requests/ann"),
    "a name with a line": token(sub="ana\nadmin"),
    "a name that is empty": token(sub=""),
    "a name that is long": token(sub="a" * 200),
    "groups that are none": token(groups={"admin": True}),
    "groups with numbers": token(groups=["vision", 7]),
    "an empty signature": ".".join([*token().split(".")[:2], ""]),
    "a signature cut short": token()[:-20],
    "a payload exchanged": ".".join(
        [token().split(".")[0], raw({}, claims(sub="adm")).split(".")[1], token().split(".")[2]]
    ),
    "not a token": "eyJ.e.x",
    "deep nesting": raw(b"[" * 900 + b"]" * 900, b"{}"),
    "an encrypted one": "eyJhbGciOiJSU0EtT0FFUCJ9.a.b.c.d",
}


@pytest.mark.parametrize("what", sorted(REFUSED))
async def test_every_other_token_is_of_nobody(what: str) -> None:
    with pytest.raises(PermissionDenied) as refused:
        await issuer().user(REFUSED[what])
    assert refused.value.reason == "UNAUTHENTICATED"
    assert len(refused.value.message.splitlines()) == 1
    assert REFUSED[what] not in refused.value.message


async def test_a_public_key_is_never_a_shared_secret() -> None:
    """The oldest trick: sign with the published key as if it were a secret, and say HS256."""
    head, body, _ = raw({"alg": "HS256", "kid": "k1", "typ": "JWT"}, claims()).split(".")
    signature = hmac.digest(pem(RSA_KEY), f"{head}.{body}".encode(), sha256)
    forged = f"{head}.{body}." + raw({}, {}, signature).split(".")[2]
    with pytest.raises(PermissionDenied, match="no algorithm that is taken"):
        await issuer().user(forged)
    assert not [name for name in ALGORITHMS if name.startswith("HS") or name.lower() == "none"]


async def test_clocks_may_differ_by_the_skew_and_no_more() -> None:
    now = int(time.time())
    assert await issuer(skew_s=60).user(token(exp=now - 20))
    with pytest.raises(PermissionDenied, match="expired"):
        await issuer(skew_s=0).user(token(exp=now - 20))
    assert await issuer(skew_s=60).user(token(nbf=now + 20, iat=now + 20))


async def test_groups_are_bounded_and_may_be_one_text() -> None:
    assert (await issuer().user(token(groups="ops")))[1] == ("oidc:ops",)
    assert (await issuer().user(token(groups=None)))[1] == ()
    with pytest.raises(PermissionDenied, match="at most"):
        await issuer().user(token(groups=["g"] * (GROUPS_MAX + 1)))


async def test_an_email_counts_if_it_is_verified() -> None:
    by_mail = issuer(user_claim="email")
    assert (await by_mail.user(token(email="a@x.org", email_verified=True)))[0] == "oidc:a@x.org"
    for said in (False, "true", 1):
        with pytest.raises(PermissionDenied, match="verified"):
            await by_mail.user(token(email="a@x.org", email_verified=said))


async def test_one_key_without_an_id_is_enough() -> None:
    alone = issuer(lambda: key_set(jwk(RSA_KEY, "k1")))
    assert await alone.user(token(kid=None))
    two = issuer(lambda: key_set(jwk(RSA_KEY, "k1"), jwk(OTHER_KEY, "k2")))
    with pytest.raises(PermissionDenied, match="no sole key"):
        await two.user(token(kid=None))


# ---- keys ---------------------------------------------------------------------------------------------------


async def test_keys_are_rotated_without_a_pause_and_an_old_one_ends() -> None:
    published = [key_set(jwk(RSA_KEY, "k1"))]
    found = issuer(lambda: published[0])
    assert await found.user(token())
    published[0] = key_set(jwk(OTHER_KEY, "k2"))
    assert await found.user(token(OTHER_KEY, kid="k2")), "an id that is not known makes it look again"
    with pytest.raises(PermissionDenied, match="no key"):
        await found.user(token())


class Hands(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


async def test_made_up_ids_make_nobody_fetch_without_end() -> None:
    clock = Hands()

    async def read() -> tuple[object, ...]:
        return parse_keys(SET)

    cache: KeyCache[object] = KeyCache(read, clock)
    found = OidcTokens(OidcTerms(ISSUER, (AUDIENCE,)), cache)  # type: ignore[arg-type]
    for number in range(50):
        with pytest.raises(PermissionDenied):
            await found.user(token(OTHER_KEY, kid=f"k{number + 100}"))
    assert cache.fetches == 1
    clock.now_s = 31.0
    with pytest.raises(PermissionDenied):
        await found.user(token(OTHER_KEY, kid="k999"))
    assert cache.fetches == 2


async def test_an_issuer_that_is_away_leaves_its_keys_for_a_while() -> None:
    clock, away = Hands(), [False]

    async def read() -> int:
        if away[0]:
            raise Unavailable("it is away")
        return 7

    cache = KeyCache(read, clock)
    assert await cache.keys() == 7
    away[0] = True
    clock.now_s = 3_600.0
    assert await cache.keys() == 7
    clock.now_s = 7 * 3_600.0
    with pytest.raises(Unavailable):
        await cache.keys()
    away[0] = False
    clock.now_s += 31.0
    assert await cache.keys() == 7


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}]}).encode(),
        key_set(jwk(WEAK_KEY, "k1")),
        key_set(jwk(RSA_KEY, "k1", use="enc")),
        key_set(jwk(RSA_KEY, "k1", alg="HS256")),
        key_set({**jwk(RSA_KEY, "k1"), "n": "!!"}),
        key_set(jwk(RSA_KEY, "k1", key_ops=["encrypt"])),
        key_set(*[jwk(RSA_KEY, f"k{i}") for i in range(65)]),
        b"[" * 100_000,
    ],
)
def test_a_set_without_a_key_that_is_good_is_none(text: bytes) -> None:
    with pytest.raises(Unavailable):
        parse_keys(text)


# ---- whose a token is -----------------------------------------------------------------------------------------


async def test_a_token_of_the_issuers_form_is_never_looked_for_in_the_file() -> None:
    forged = token(OTHER_KEY)
    callers = Callers(lambda: parse_tokens(f"adm {forged}"), lambda: TRUSTING, issuer())
    with pytest.raises(PermissionDenied, match="not signed by the issuer"):
        await callers.caller([f"Bearer {forged}"])
    access = await callers.caller([f"Bearer {token()}"])
    assert (access.principal, access.groups) == ("oidc:ana", ("oidc:vision",))


@pytest.mark.parametrize(
    "sent",
    [[], [""], ["Bearer"], ["Bearer "], ["Basic YTpi"], [token()], ["Bearer \ud800"], ["Bearer a", "Bearer a"]],
)
async def test_headers_that_are_no_token(sent: list[str]) -> None:
    with pytest.raises(PermissionDenied) as refused:
        await Callers(lambda: parse_tokens("ann 0123456789abcdef"), lambda: TRUSTING, issuer()).caller(sent)
    assert refused.value.reason == "UNAUTHENTICATED"


async def test_a_token_that_is_too_long_is_not_looked_into() -> None:
    with pytest.raises(PermissionDenied, match="more than"):
        await Callers(Credentials, lambda: TRUSTING, issuer()).caller([f"Bearer {'a' * (TOKEN_CHARS_MAX + 1)}"])


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200).map(lambda b: b.decode("latin-1"))), st.booleans())
async def test_no_text_is_anything_but_a_token_or_a_refusal(text: str, dotted: bool) -> None:
    with pytest.raises(HanseError):
        await issuer().user(f"eyJ{text}.{text}.{text}" if dotted else text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "jku", "jwk", "x5c", "b64"]), JSON), JSON)
async def test_no_header_and_payload_without_a_signature_come_through(
    header: dict[str, object], body: object
) -> None:
    with pytest.raises(PermissionDenied):
        await issuer().user(raw(header, body, b"signature"))


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "iat", "aud", "groups", "jti", "email"]), JSON))
async def test_whatever_the_issuer_itself_signs_is_a_name_or_a_refusal(said: dict[str, object]) -> None:
    text = json.dumps({**claims(), **said})
    head = raw({"alg": "RS256", "kid": "k1"}, text.encode()).rsplit(".", 1)[0]
    signed = sign(head)
    try:
        name, groups, _ = await issuer().user(signed)
    except PermissionDenied:
        return
    assert name.startswith("oidc:")
    assert "/" not in name
    assert all(group.startswith("oidc:") for group in groups)


def sign(head: str) -> str:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    signature = RSA_KEY.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{head}.{raw({}, {}, signature).rsplit('.', 1)[1]}"


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=300), JSON.map(lambda v: json.dumps({"keys": [v]}).encode())))
def test_no_bytes_are_anything_but_keys_or_a_refusal(text: bytes) -> None:
    with pytest.raises(Unavailable):
        parse_keys(text)
