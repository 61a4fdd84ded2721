"""kill -9 at random moments: everything acknowledged is there, whole, and the store goes on."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

from hanse.kit.clock import SystemClock
from hanse.store.contract import KEYS_END, KeyValue, Store, key_after, prefix_end
from hanse.store.sqlite import SqliteStore

ROUNDS = 8
CHILD = Path(__file__).with_name("crash_writer.py")

Acks = dict[str, tuple[int, int]]
"""Writer → its last acknowledged number and that one's revision."""


async def run_and_kill(path: Path, acks: Acks, lines: int) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, str(CHILD), str(path), stdout=subprocess.PIPE)
    assert child.stdout is not None
    async with asyncio.timeout(60):
        for _ in range(lines):
            line = await child.stdout.readline()
            assert line, "the child died by itself"
            note(acks, line)
        child.kill()
        rest = await child.stdout.read()
        await child.wait()
    for line in rest.splitlines(keepends=True):
        if line.endswith(b"\n"):
            note(acks, line)


def note(acks: Acks, line: bytes) -> None:
    writer, number, revision = line.decode().split()
    acks[writer] = (int(number), int(revision))


async def everything(store: Store, prefix: str) -> dict[str, KeyValue]:
    found: dict[str, KeyValue] = {}
    start, more = prefix, True
    while more:
        page = await store.range(start, prefix_end(prefix))
        found.update({kv.key: kv for kv in page.items})
        more = page.more
        start = key_after(page.items[-1].key) if page.items else start
    return found


async def check(store: Store, acks: Acks) -> None:
    for writer, (number, revision) in acks.items():
        found = await everything(store, f"{writer}/")
        last = int(found[f"{writer}/last"].value)
        assert last >= number, f"acknowledged transaction {number} of {writer} is lost, {last} is the last"
        assert found[f"{writer}/a/{number}"].mod_revision == revision
        for n in range(1, last + 1):
            a, b = found.pop(f"{writer}/a/{n}"), found.pop(f"{writer}/b/{n}")
            assert a.mod_revision == b.mod_revision
            assert (len(a.value), b.value) == (200, b"%d" % n)
        assert list(found) == [f"{writer}/last"]


async def check_log(store: Store) -> None:
    """What history still has leads to what is there now."""
    now = await store.range("", KEYS_END, keys_only=True, limit=1)
    async with store.watch("", KEYS_END, from_revision=max(1, now.revision - 100)) as watch:
        newest: dict[str, int] = {}
        seen = 0
        async for batch in watch:
            newest.update({event.kv.key: event.kv.mod_revision for event in batch.events})
            seen = batch.revision
            if seen >= now.revision:
                break
    items = (await store.read(list(newest))).items
    assert {key: kv.mod_revision for key, kv in items.items()} == newest


async def test_killed_at_random_moments(tmp_path: Path) -> None:
    path, rng, acks = tmp_path / "hanse.db", random.Random(7), Acks()
    for _ in range(ROUNDS):
        await run_and_kill(path, acks, lines=rng.randrange(1, 1500))
        store = await SqliteStore.open(path, SystemClock())
        await check(store, acks)
        await check_log(store)
        await store.close()
    assert sum(number for number, _ in acks.values()) > ROUNDS
