"""Who gets in, and which requests are refused before anybody asks who they are."""

import pytest
from starlette.datastructures import Headers

from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.policy import TRUSTING
from hanse.apiserver.credentials import Credentials, parse_tokens
from hanse.console.access import Entry
from hanse.model.errors import PermissionDenied

TOKENS = parse_tokens("ann 0123456789abcdef0123\n")


@pytest.mark.parametrize(
    ("listens", "named", "enters"),
    [
        ("127.0.0.1", "127.0.0.1:7310", True),
        ("127.0.0.1", "localhost:7310", True),
        ("127.0.0.1", "[::1]:7310", True),
        ("127.0.0.1", "evil.example:7310", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[::1", False),
        ("10.0.0.7", "console.example", True),
    ],
)
def test_on_the_loopback_only_names_of_the_loopback_get_in(listens: str, named: str, enters: bool) -> None:
    access = Entry(Callers(Credentials, lambda: TRUSTING), host=listens, secure=False)
    if enters:
        access.check_host(Headers({"host": named}))
    else:
        with pytest.raises(PermissionDenied, match="loopback"):
            access.check_host(Headers({"host": named}))


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"x-hanse-console": "1"}, True),
        ({"x-hanse-console": "1", "origin": "http://127.0.0.1:7310"}, True),
        ({"x-hanse-console": "1", "origin": "http://127.0.0.1:7311"}, False),
        ({"x-hanse-console": "1", "origin": "null"}, False),
        ({"x-hanse-console": "1", "sec-fetch-site": "same-site"}, False),
        ({"x-hanse-console": "1", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://127.0.0.1:7310"}, False),
    ],
)
def test_a_change_comes_from_our_own_page(headers: dict[str, str], passes: bool) -> None:
    access = Entry(Callers(Credentials, lambda: TRUSTING), host="127.0.0.1", secure=False)
    asked = Headers({"host": "127.0.0.1:7310", **headers})
    if passes:
        access.check_write(asked)
    else:
        with pytest.raises(PermissionDenied):
            access.check_write(asked)


async def test_who_calls_is_the_principal_of_the_token_and_nobody_without_one() -> None:
    access = Entry(Callers(lambda: TOKENS, lambda: TRUSTING), host="10.0.0.7", secure=True)
    assert (await access.caller("Bearer 0123456789abcdef0123")).principal == "ann"
    for shown in ("", "Bearer ", "Bearer 0123456789abcdef012", "Basic 0123456789abcdef0123"):
        with pytest.raises(PermissionDenied):
            await access.caller(shown)
