"""What may be opened, by whom, and what is said when it may not: one line that names the file."""

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hanse.kit.clock import SystemClock
from hanse.store.contract import Put, StoreUnavailable, Txn
from hanse.store.sqlite import SqliteStore
from hanse.store.sqlite.file import APPLICATION_ID

HOLD = """
import asyncio, pathlib, sys
from hanse.kit.clock import SystemClock
from hanse.store.sqlite import SqliteStore
async def hold():
    store = await SqliteStore.open(pathlib.Path(sys.argv[1]), SystemClock())
    print("open", flush=True)
    await asyncio.Event().wait()
asyncio.run(hold())
"""

AS_NOBODY = """
import asyncio, os, pathlib, sys
from hanse.kit.clock import SystemClock
from hanse.store.contract import StoreUnavailable
from hanse.store.sqlite import SqliteStore
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
try:
    asyncio.run(SqliteStore.open(pathlib.Path(sys.argv[1]), SystemClock()))
except StoreUnavailable as error:
    print(error)
"""


async def refusal(path: Path) -> str:
    with pytest.raises(StoreUnavailable) as caught:
        await SqliteStore.open(path, SystemClock())
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


async def test_a_second_store_in_this_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hanse.db"
    first = await SqliteStore.open(path, SystemClock())
    assert "this process already" in await refusal(path)
    await first.transact(Txn(ops=(Put("a", b"1"),)))
    await first.close()
    again = await SqliteStore.open(path, SystemClock())
    assert "a" in (await again.read(["a"])).items
    await again.close()


async def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "hanse.db"
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, str(path), stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"open\n"
    assert f"process {holder.pid}" in await refusal(path)
    holder.kill()
    await holder.wait()
    store = await SqliteStore.open(path, SystemClock())
    await store.close()


async def test_a_text_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "hanse.db"
    path.write_text("queues: []\n" * 500)
    assert "not a SQLite database" in await refusal(path)
    assert path.read_text().startswith("queues")


async def test_a_database_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE songs (name)")
    other.commit()
    other.close()
    assert "another program" in await refusal(path)
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]
    other.close()


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    newer.execute("PRAGMA user_version = 99")
    newer.execute("CREATE TABLE things (name)")
    newer.commit()
    newer.close()
    assert "schema 99" in await refusal(path)


async def test_an_empty_file_is_a_fresh_store(tmp_path: Path) -> None:
    path = tmp_path / "hanse.db"
    path.touch()
    store = await SqliteStore.open(path, SystemClock())
    await store.close()


@pytest.mark.parametrize("where", [0.2, 0.5, 0.9])
async def test_a_damaged_file_is_refused(tmp_path: Path, where: float) -> None:
    path = tmp_path / "hanse.db"
    store = await SqliteStore.open(path, SystemClock())
    for n in range(40):
        await store.transact(Txn(ops=tuple(Put(f"{n:02}/{k:03}", bytes(100)) for k in range(100))))
    await store.close()
    data = bytearray(path.read_bytes())
    at = int(len(data) * where) // 4096 * 4096
    data[at : at + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    assert "damaged" in await refusal(path)


async def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hanse.db"
    store = await SqliteStore.open(path, SystemClock())
    for n in range(20):
        await store.transact(Txn(ops=tuple(Put(f"{n:02}/{k:03}", bytes(100)) for k in range(100))))
    await store.close()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert "damaged" in await refusal(path)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "folder" in await refusal(tmp_path / "nowhere" / "hanse.db")


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    assert "cannot be opened" in await refusal(path)


def test_a_folder_without_write_permission(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    closed = tmp_path / "closed"
    closed.mkdir(0o555)
    path = closed / "hanse.db"
    said = subprocess.run([sys.executable, "-c", AS_NOBODY, str(path)], capture_output=True, text=True, check=True)
    assert said.stdout.startswith(f"store {path}: cannot open its lock file")
    assert said.stdout.count("\n") == 1
