"""Addresses of stores: each kind opens, and what is wrong is told in one line without the password."""

import subprocess
import sys
from pathlib import Path

import pytest

from hanse.kit.clock import SystemClock
from hanse.model.errors import InvalidArgument
from hanse.store.contract import StoreUnavailable
from hanse.store.memory import MemoryStore
from hanse.store.opening import open_store
from hanse.store.sqlite import SqliteStore

WRONG = {
    "no kind": "hanse.db",
    "another kind": "redis://host",
    "nothing": "",
    "memory with a path": "memory:x",
    "sqlite without a path": "sqlite:",
    "etcd without slashes": "etcd:host:2379",
    "etcd without a host": "etcd://",
    "etcd with an empty host": "etcd://a:1,,b:2",
    "etcd with a bad port": "etcd://a:0",
    "etcd with a word for a port": "etcd://a:http",
    "etcd with a path": "etcd://a:1/prefix",
    "etcd with one member twice": "etcd://a,b,a:2379",
    "etcd with too many members": "etcd://" + ",".join(f"h{n}" for n in range(10)),
    "etcd with an unknown option": "etcd://a:1?tls=1",
    "etcd with an empty option": "etcd://a:1?ca=",
    "etcd with a certificate without its key": "etcd://a:1?ca=x&cert=y",
    "etcd with a certificate without authorities": "etcd://a:1?cert=y&key=z",
    "etcd with a file that is not there": "etcd://a:1?ca=not-there.pem",
}


async def test_memory_opens() -> None:
    store = await open_store("memory:", SystemClock())
    assert isinstance(store, MemoryStore)
    await store.close()


async def test_sqlite_opens(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:{tmp_path}/hanse.db", SystemClock())
    assert isinstance(store, SqliteStore)
    await store.close()


@pytest.mark.parametrize("url", WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_address_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await open_store(url, SystemClock())
    assert str(caught.value).startswith("store address: ")
    assert "\n" not in str(caught.value)


async def test_a_password_is_never_shown() -> None:
    with pytest.raises(InvalidArgument) as caught:
        await open_store("etcd://hanse:secret@a:port", SystemClock())
    assert "secret" not in str(caught.value)


async def test_a_folder_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await open_store(f"sqlite:{tmp_path}/none/hanse.db", SystemClock())


def test_what_is_not_asked_for_is_not_imported() -> None:
    code = "import sys, hanse.store.opening; print([n for n in ('grpc', 'sqlite3') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
