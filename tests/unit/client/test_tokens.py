"""Where a client's token comes from, and where it never goes."""

import random
from pathlib import Path

import pytest

from hanse.client.address import tls_files
from hanse.client.calls import Connection, Terms
from hanse.client.tokens import check_secret, token_source
from hanse.kit.tls import TlsFiles
from hanse.model.errors import InvalidArgument


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "token"
    found.write_text("of-the-file\n")
    return found


def test_what_is_nearer_wins(file: Path) -> None:
    both = {"HANSE_TOKEN": "of-the-variable", "HANSE_TOKEN_FILE": str(file)}
    assert token_source("given", None, both)() == "given"
    assert token_source("", None, both)() == "", "an empty one is none, whatever the environment says"
    assert token_source(None, file, {"HANSE_TOKEN": "x"})() == "of-the-file"
    assert token_source(None, None, both)() == "of-the-variable"
    assert token_source(None, None, {"HANSE_TOKEN_FILE": str(file)})() == "of-the-file"
    assert token_source(None, None, {})() == ""


def test_a_file_that_is_renewed_is_read_again(file: Path) -> None:
    source = token_source(None, file, {})
    assert source() == "of-the-file"
    file.write_text("a-longer-one-of-the-file")
    assert source() == "a-longer-one-of-the-file"


@pytest.mark.parametrize("text", ["", "two words", "line\nline", "schlüssel", "a\x00b", "x" * 20_000])
def test_what_is_no_token_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(InvalidArgument) as refused:
        token_source(None, tmp_path / "token", {})()
    assert not text or text not in str(refused.value)
    with pytest.raises(InvalidArgument):
        token_source(None, tmp_path / "none", {})()


def test_a_variable_cannot_bring_a_header_of_its_own() -> None:
    with pytest.raises(InvalidArgument):
        token_source("a\r\nx-admin: true", None, {})


@pytest.mark.parametrize("server", ["127.0.0.1:7311", "localhost:7311", "[::1]:7311"])
def test_on_this_machine_it_may_travel_in_clear(server: str) -> None:
    check_secret(server, "secret", None)


@pytest.mark.parametrize(
    "server", ["10.0.0.7:7311", "hanse.example:7311", "localhost.evil.example:7311", "0.0.0.0:1"]
)
def test_to_another_machine_it_never_travels_in_clear(server: str) -> None:
    check_secret(server, "", None)
    check_secret(server, "secret", TlsFiles())
    with pytest.raises(InvalidArgument) as refused:
        check_secret(server, "secret", None)
    assert refused.value.reason == "TOKEN_IN_CLEAR"
    assert "secret" not in str(refused.value)
    connection = Connection(server, token=lambda: "secret", terms=Terms(), rng=random.Random(1))
    with pytest.raises(InvalidArgument):
        assert connection.metadata


def test_the_authorities_of_this_machine_are_asked_for_by_name() -> None:
    assert tls_files({}) is None
    assert tls_files({"HANSE_TLS": "0"}) is None
    assert tls_files({"HANSE_TLS": "1"}) == TlsFiles()
