"""Addresses of etcd, understood."""

from pathlib import Path

import pytest

from hanse.model.errors import InvalidArgument
from hanse.store.etcd import EtcdOptions

RIGHT = {
    "etcd://a": EtcdOptions(endpoints=("a:2379",)),
    "etcd://a:1,b,10.0.0.1:3": EtcdOptions(endpoints=("a:1", "b:2379", "10.0.0.1:3")),
    "etcd://[::1]:2379/": EtcdOptions(endpoints=("[::1]:2379",)),
    "etcd://u:p%40%2Fw@a:1": EtcdOptions(endpoints=("a:1",), user="u", password="p@/w"),
    "etcd://a:1?ca=x": EtcdOptions(endpoints=("a:1",), ca=Path("x")),
    "etcd://a:1?ca=x&cert=y&key=z": EtcdOptions(endpoints=("a:1",), ca=Path("x"), cert=Path("y"), key=Path("z")),
}


@pytest.mark.parametrize("url", RIGHT)
def test_an_address_says_how_to_reach_etcd(url: str) -> None:
    assert EtcdOptions.from_url(url) == RIGHT[url]


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(EtcdOptions.from_url("etcd://u:secret@a"))


def test_without_authorities_there_is_no_tls() -> None:
    assert EtcdOptions.from_url("etcd://a").credentials() is None


def test_certificates_are_read(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_bytes(name.encode())
    url = f"etcd://a?ca={tmp_path}/ca&cert={tmp_path}/cert&key={tmp_path}/key"
    assert EtcdOptions.from_url(url).credentials() == (b"ca", b"key", b"cert")
    assert EtcdOptions.from_url(f"etcd://a?ca={tmp_path}/ca").credentials() == (b"ca", None, None)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"ca=.*none\.pem cannot be read"):
        EtcdOptions(endpoints=("a:1",), ca=tmp_path / "none.pem").credentials()
