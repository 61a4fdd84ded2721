"""Tokens of a file, and where a server may listen."""

from pathlib import Path

import pytest

from hanse.apiserver.context import ANONYMOUS
from hanse.apiserver.credentials import Holder, check_listen, hashed, parse_tokens, read_tokens
from hanse.kit.addresses import is_loopback
from hanse.model.errors import FailedPrecondition, InvalidArgument

TOKEN = "0123456789abcdef"


def test_a_token_stands_for_its_principal() -> None:
    credentials = parse_tokens(f"# staff\n\nann {TOKEN}\nbob@x {TOKEN}2 vision,nlp\n")
    assert credentials.holder(TOKEN) == Holder("ann")
    assert credentials.holder(f"{TOKEN}2") == Holder("bob@x", ("vision", "nlp"))


def test_a_file_may_hold_digests_alone() -> None:
    credentials = parse_tokens(f"ann {hashed(TOKEN)} vision\n")
    assert TOKEN not in hashed(TOKEN)
    assert credentials.holder(TOKEN) == Holder("ann", ("vision",))
    assert credentials.holder(hashed(TOKEN)) is None, "whoever reads the file has no token by that"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        ("# only this", 0),
        ("ann", 1),
        (f"ann {TOKEN} more still", 1),
        (f"ann {TOKEN} a,,b", 1),
        (f"ann {TOKEN} a/b", 1),
        ("ann sha256:0123", 1),
        (f"ann {hashed(TOKEN)}\nbob {TOKEN}", 2),
        (f"ok {TOKEN}\nan/n {TOKEN}2", 2),
        (f"{ANONYMOUS} {TOKEN}", 1),
        ("ann short", 1),
        (f"ann {TOKEN}\nbob {TOKEN}", 2),
    ],
)
def test_files_that_are_refused_never_show_a_token(text: str, line: int) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_tokens(text, path="tokens")
    assert (refused.value.line, refused.value.path) == (line, "tokens")
    assert TOKEN not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        read_tokens(tmp_path / "none")
    (tmp_path / "tokens").write_text(f"ann {TOKEN}\n")
    assert read_tokens(tmp_path / "tokens").principals


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "[::1]", "::1"])
def test_only_this_machine_reaches_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.1", "example.org", "localhost.example.org", "127.1"])
def test_everything_else_is_reached_from_elsewhere(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(FailedPrecondition):
        check_listen(f"{host}:1", open=True)
    check_listen(f"{host}:1", open=False)
