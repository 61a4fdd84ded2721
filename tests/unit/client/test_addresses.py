"""Where the server is."""

import pytest

from hanse.client.address import server_address
from hanse.model.errors import InvalidArgument


@pytest.mark.parametrize(
    ("given", "environment", "found"),
    [
        (None, {}, "127.0.0.1:7311"),
        (None, {"HANSE_SERVER": "hanse.example:1"}, "hanse.example:1"),
        ("other:2", {"HANSE_SERVER": "hanse.example:1"}, "other:2"),
        ("", {"HANSE_SERVER": ""}, "127.0.0.1:7311"),
        (" host ", {}, "host:7311"),
        ("[::1]:9", {}, "[::1]:9"),
        ("[::1]", {}, "[::1]:7311"),
    ],
)
def test_an_argument_wins_over_the_environment(given: str | None, environment: dict[str, str], found: str) -> None:
    assert server_address(given, environment) == found


@pytest.mark.parametrize(
    "text", ["http://host:1", "host:port", "host:0", "host:70000", ":7311", "::1", "a b:1", "x@y:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        server_address(text, {})
    assert "HOST:PORT" in refused.value.message
