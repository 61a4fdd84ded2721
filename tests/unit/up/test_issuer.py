"""An issuer as settings name it: found by its document, over HTTP, with keys that change; or not taken at all."""

import json
from pathlib import Path

import pytest

from hanse.apiserver.access import keys
from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.oidc import OidcTerms
from hanse.apiserver.access.policy import TRUSTING
from hanse.apiserver.credentials import Credentials
from hanse.kit.clock import SystemClock
from hanse.model.errors import InvalidArgument, PermissionDenied, Unavailable
from hanse.up.issuer import opened_issuer
from tests.unit.apiserver.access.issuers import AUDIENCE, OTHER_KEY, RSA_KEY, jwk, key_set, token
from tests.unit.apiserver.access.test_fetching import Site, http, site


class Hands(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


async def test_a_token_is_judged_by_the_keys_that_the_issuer_publishes_now() -> None:
    published, clock = [jwk(RSA_KEY, "k1")], Hands()

    def answer(at: Site, path: str) -> bytes:
        if path.startswith("/.well-known"):
            return http(json.dumps({"issuer": at.address, "jwks_uri": f"{at.address}/keys"}).encode())
        return http(key_set(*published)) if published else http(b"", "503 Away")

    async with site(answer) as at:
        issuer = opened_issuer(OidcTerms(at.address, (AUDIENCE,)), "", None, clock)
        callers = Callers(Credentials, lambda: TRUSTING, issuer)

        async def name(shown: str) -> str:
            return (await callers.caller([f"Bearer {shown}"])).principal

        assert await name(token(iss=at.address)) == "oidc:ana"
        with pytest.raises(PermissionDenied, match="not of"):
            await name(token(iss="http://127.0.0.1:1"))
        published[:] = [jwk(OTHER_KEY, "k2")]
        clock.now_s += keys.ASKED_AGAIN_S + 1
        assert await name(token(OTHER_KEY, kid="k2", iss=at.address)) == "oidc:ana"
        with pytest.raises(PermissionDenied, match="no key"):
            await name(token(iss=at.address))
        published.clear()
        clock.now_s += keys.FRESH_S + 1
        assert await name(token(OTHER_KEY, kid="k2", iss=at.address)) == "oidc:ana", "it is away for a moment"
        clock.now_s += keys.TRUSTED_S + 1
        with pytest.raises(Unavailable):
            await name(token(OTHER_KEY, kid="k2", iss=at.address))


async def test_what_a_token_names_is_never_asked_for() -> None:
    async with site(lambda at, path: http(key_set(jwk(RSA_KEY, "k1")))) as trap, site(two_keys) as at:
        issuer = opened_issuer(OidcTerms(at.address, (AUDIENCE,)), f"{at.address}/keys", None, SystemClock())
        assert issuer is not None
        for headers in ({"jku": trap.address}, {"x5u": trap.address}, {"kid": f"{trap.address}/k1"}):
            with pytest.raises(PermissionDenied):
                await issuer.user(token(OTHER_KEY, iss=at.address, kid=None, headers=headers))
        assert trap.asked == []
        assert set(at.asked) == {"/keys"}


def two_keys(at: Site, path: str) -> bytes:
    return http(key_set(jwk(RSA_KEY, "k1"), jwk(RSA_KEY, "k3")))


@pytest.mark.parametrize(
    ("terms", "place", "path"),
    [
        (OidcTerms("https://x", ()), "", "oidc_audience"),
        (OidcTerms("", ("hanse",)), "", "oidc_audience"),
        (OidcTerms("http://login.example.org", ("hanse",)), "", "oidc_issuer"),
        (OidcTerms("https://x", ("hanse",)), "http://10.0.0.1/keys", "oidc_keys"),
        (OidcTerms("https://x", ("hanse",)), "file:///etc/passwd", "oidc_keys"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(terms: OidcTerms, place: str, path: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        opened_issuer(terms, place, None, SystemClock())
    assert refused.value.path == path


async def test_keys_of_a_file_change_with_it(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys", Hands()
    file.write_bytes(key_set(jwk(RSA_KEY, "k1")))
    issuer = opened_issuer(OidcTerms("https://login.example.org/realm", (AUDIENCE,)), str(file), None, clock)
    assert issuer is not None
    assert await issuer.user(token())
    file.write_bytes(key_set(jwk(OTHER_KEY, "k2")))
    clock.now_s += 11.0
    with pytest.raises(PermissionDenied):
        await issuer.user(token())
