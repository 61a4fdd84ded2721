"""A cluster in a folder: it outlives every death, says clearly what is wrong with it, and never half does a thing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.model.errors import FailedPrecondition, OutOfRange, Unavailable
from hanse.model.resources import NVIDIA_GPU
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import Fact, FactKind
from hanse.simcluster.file_storage import DEFAULT_LIMITS, FileStorage, StorageLimits
from hanse.simcluster.folder import log_files
from hanse.simcluster.inputs import Claim, EpochId, FailNodes, Forget, Hold, Input, Program, Stop, pack
from hanse.simcluster.restoring import open_folder
from hanse.simcluster.snapshot import dump
from hanse.simcluster.spec import Busy, ClusterSpec, Timing
from hanse.simcluster.storage import Storage
from tests.unit.simcluster.clusters import BEGIN_MS, CLAIM, engine, gang, hold, some, spec, start

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


class Kept:
    """A cluster in a folder, used as the shell uses it."""

    def __init__(
        self, folder: Path, cluster: ClusterSpec | None = None, *, limits: StorageLimits = DEFAULT_LIMITS
    ) -> None:
        self.engine, self.storage = open_folder(folder, cluster or spec(), now_ms=BEGIN_MS, uid="uid", limits=limits)

    def do(self, *inputs: Input, after_ms: int = 0) -> list[str]:
        now_ms = self.engine.now_ms + after_ms
        self.engine.advance(now_ms)
        self.storage.keep(self.engine.take_facts())
        self.storage.append(now_ms, inputs)
        outcomes = [self.engine.apply(change, now_ms) for change in inputs]
        self.storage.keep(self.engine.take_facts())
        self.storage.tidy(self.engine)
        return outcomes

    def die(self) -> None:
        """What kill -9 leaves: what was written, and no more."""
        self.storage.waiting = []
        self.storage.close()

    def close(self) -> None:
        self.storage.close()


def facts_of(storage: Storage, seq: int = 1) -> list[Fact]:
    reader = storage.facts_from(seq)
    found: list[Fact] = []
    while batch := reader.read().facts:
        found += batch
    reader.close()
    return found


def lived(kept: Kept) -> None:
    """Some history."""
    kept.do(CLAIM, hold(range(4)), start())
    kept.do(hold([5, 6], gang(2)), start(gang(2), Program("worker", run_ms=700, exit_code=1)), after_ms=30)
    kept.do(FailNodes(pack(some([1]))), after_ms=300)
    kept.do(Stop(gang(1), 10_000), hold([9], gang(3)), after_ms=300)
    kept.do(Forget(gang(1)), start(gang(3)), after_ms=100)


def test_a_new_folder_holds_a_new_cluster(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a" / "b")
    assert kept.storage.first_seq == 1
    assert facts_of(kept.storage) == []
    assert dump(kept.engine) == dump(engine())


@pytest.mark.parametrize("ending", ["die", "close"])
def test_a_cluster_comes_back_to_the_letter(tmp_path: Path, ending: str) -> None:
    kept = Kept(tmp_path)
    lived(kept)
    facts = facts_of(kept.storage)
    getattr(kept, ending)()
    back = Kept(tmp_path)
    assert dump(back.engine) == dump(kept.engine)
    assert facts_of(back.storage) == facts
    back.engine.advance(BEGIN_MS + 10_000)
    kept.engine.advance(BEGIN_MS + 10_000)
    assert back.engine.take_facts() == kept.engine.take_facts()


def test_facts_that_were_never_written_follow_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.do(CLAIM, hold(range(4)), start())
    told = list(kept.storage.waiting)
    assert [fact.kind for fact in told] == [FactKind.CLAIMED, FactKind.STARTED]
    kept.die()
    assert facts_of(Kept(tmp_path).storage) == told


def test_it_goes_on_from_there(tmp_path: Path) -> None:
    whole = Kept(tmp_path / "whole")
    lived(whole)
    pieces = Kept(tmp_path / "pieces")
    pieces.do(CLAIM, hold(range(4)), start())
    pieces.die()
    pieces = Kept(tmp_path / "pieces")
    pieces.do(hold([5, 6], gang(2)), start(gang(2), Program("worker", run_ms=700, exit_code=1)), after_ms=30)
    pieces.do(FailNodes(pack(some([1]))), after_ms=300)
    pieces.close()
    pieces = Kept(tmp_path / "pieces")
    pieces.do(Stop(gang(1), 10_000), hold([9], gang(3)), after_ms=300)
    pieces.do(Forget(gang(1)), start(gang(3)), after_ms=100)
    assert dump(pieces.engine) == dump(whole.engine)
    assert facts_of(pieces.storage) == facts_of(whole.storage)


def test_every_torn_tail_is_a_past(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "whole")
    pasts = [dump(kept.engine)]
    for step in ((CLAIM,), (hold(range(4)), start()), (Stop(gang(1), 0),)):
        kept.do(*step)
        pasts.append(dump(kept.engine))
    kept.die()
    log = log_files(tmp_path / "whole")[-1].path
    raw, snapshot = log.read_bytes(), (tmp_path / "whole" / "snapshot").read_bytes()
    for size in range(len(raw)):
        folder = tmp_path / f"torn-{size}"
        folder.mkdir()
        (folder / "snapshot").write_bytes(snapshot)
        (folder / log.name).write_bytes(raw[:size])
        back = Kept(folder)
        assert dump(back.engine) in pasts
        assert back.do(CLAIM) == [""]
        back.close()


def test_damage_is_told_and_nothing_is_guessed(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    lived(kept)
    kept.close()
    log = log_files(tmp_path)[-1].path
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2] ^= 1
    log.write_bytes(raw)
    with pytest.raises(FailedPrecondition) as caught:
        Kept(tmp_path)
    assert caught.value.reason == "STATE_DAMAGED"
    assert f"{log}: the record at byte" in str(caught.value)
    assert "remove it to begin with an empty cluster" in str(caught.value)
    with pytest.raises(FailedPrecondition):  # and the folder is not locked by the failure
        Kept(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"nonsense that is no record at all"])
def test_a_damaged_snapshot_is_told(tmp_path: Path, damage: bytes) -> None:
    Kept(tmp_path).close()
    (tmp_path / "snapshot").write_bytes(damage)
    with pytest.raises(FailedPrecondition, match="snapshot"):
        Kept(tmp_path)


def test_only_one_process_has_a_folder(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    with pytest.raises(FailedPrecondition) as caught:
        Kept(tmp_path)
    assert caught.value.reason == "STATE_IN_USE"
    kept.close()
    Kept(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Unavailable, match=r"Not a directory|File exists"):
        Kept(tmp_path / "file" / "state")


# Snapshots


SMALL_LOGS = StorageLimits(log_bytes=3_000)


def busy_life(kept: Kept, begin: int, end: int) -> None:
    for number in range(begin, end):
        kept.do(hold([number % 16], gang(number), gpus=0), start(gang(number)), after_ms=100)
        kept.do(Stop(gang(number), 0), Forget(gang(number)))


def test_logs_are_turned_into_snapshots_and_the_pod_log_stays(tmp_path: Path) -> None:
    kept = Kept(tmp_path, limits=SMALL_LOGS)
    kept.do(CLAIM)
    busy_life(kept, 0, 60)
    assert len(log_files(tmp_path)) > 3
    facts = facts_of(kept.storage)
    assert len([fact for fact in facts if fact.kind == FactKind.STARTED]) == 60
    assert [fact.seq for fact in facts] == sorted({fact.seq for fact in facts})
    kept.die()
    back = Kept(tmp_path)
    assert dump(back.engine) == dump(kept.engine)
    assert facts_of(back.storage) == facts
    assert facts_of(back.storage, seq=facts[30].seq) == facts[30:]


def test_a_reader_follows_over_snapshots(tmp_path: Path) -> None:
    kept = Kept(tmp_path, limits=SMALL_LOGS)
    kept.do(CLAIM)
    reader = kept.storage.facts_from(1)
    found: list[Fact] = []
    for begin in range(0, 60, 5):
        busy_life(kept, begin, begin + 5)
        while batch := reader.read().facts:
            found += batch
    assert found == facts_of(kept.storage)


def test_the_oldest_logs_go_first(tmp_path: Path) -> None:
    kept = Kept(tmp_path, limits=StorageLimits(log_bytes=3_000, pod_log_bytes=10_000))
    kept.do(CLAIM)
    busy_life(kept, 0, 60)
    assert sum(log.path.stat().st_size for log in log_files(tmp_path)) < 16_000
    first = kept.storage.first_seq
    assert first > 1
    with pytest.raises(OutOfRange, match=f"begins at {first}"):
        kept.storage.facts_from(1)
    facts = facts_of(kept.storage, seq=first)
    assert facts[0].seq >= first
    assert facts[-1].kind == FactKind.ENDED


def test_a_crash_between_new_log_and_new_snapshot_is_no_loss(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    lived(kept)
    snapshot = (tmp_path / "snapshot").read_bytes()
    before, facts = dump(kept.engine), facts_of(kept.storage)
    kept.storage.rotate(kept.engine)
    kept.close()
    (tmp_path / "snapshot").write_bytes(snapshot)
    back = Kept(tmp_path)
    assert dump(back.engine) == before
    assert facts_of(back.storage) == facts


def test_a_crash_after_the_new_snapshot_is_no_loss(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    lived(kept)
    facts = facts_of(kept.storage)
    kept.storage.rotate(kept.engine)
    kept.close()
    log_files(tmp_path)[-1].path.unlink()
    back = Kept(tmp_path)
    assert dump(back.engine) == dump(kept.engine)
    assert facts_of(back.storage) == facts


# Another spec


def test_another_timing_is_taken_over(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    lived(kept)
    kept.close()
    back = Kept(tmp_path, spec(timing=Timing(run=7_000)))
    assert back.engine.spec.timing.run == 7_000
    assert back.engine.gangs.keys() == kept.engine.gangs.keys()
    back.close()
    assert Kept(tmp_path, spec(timing=Timing(run=7_000))).engine.spec.timing.run == 7_000


def test_pods_stay_on_nodes_of_the_same_name_and_are_lost_with_the_others(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.do(CLAIM, hold([0, 1, 15], gang(1)), start(gang(1)), hold([14], gang(2)), start(gang(2)))
    kept.do(hold([2], gang(3)), FailNodes(pack(some([3]))), after_ms=500)
    facts = facts_of(kept.storage)
    kept.close()
    smaller = spec(counts=(1, 2, 4))
    back = Kept(tmp_path, smaller)
    counts = {key.job[-1]: found.counts for key, found in back.engine.gangs.items()}
    assert (counts["1"].running, counts["1"].missing, counts["1"].reason) == (2, 1, "NodeLost")
    assert (counts["2"].running, counts["2"].missing) == (0, 1)
    assert len(list(back.engine.listed_nodes())) == 8
    assert not back.engine.nodes.ready[back.engine.nodes.index["n-b0-r0-h3"]]
    told = facts_of(back.storage)
    assert told[: len(facts)] == facts
    assert [fact.kind for fact in told[len(facts) :]] == [FactKind.LOST, FactKind.ENDED]
    assert back.do(Stop(gang(1), 0), start(gang(3)), after_ms=10) == ["", ""]
    back.close()
    again = Kept(tmp_path, smaller)
    assert dump(again.engine) == dump(back.engine)


def test_old_facts_keep_the_names_of_their_time(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.do(CLAIM, hold([15], gang(1)), start(gang(1)))
    kept.close()
    back = Kept(tmp_path, spec(counts=(1, 1, 2)))
    batch = back.storage.facts_from(1).read()
    assert batch.names[15] == "n-b1-r1-h3"


def test_pods_of_others_make_way_where_they_do_not_fit(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.do(CLAIM, hold(range(4), gang(1)), start(gang(1)))
    kept.close()
    back = Kept(tmp_path, spec(busy=Busy(1.0)))
    table = back.engine.nodes
    assert table.gpus_of(table.free).tolist() == [0] * 16
    assert table.gpus_of(table.foreign).tolist() == [0] * 4 + [8] * 12


# Deaths and full disks


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    for round_ in range(3):
        folder = tmp_path / str(round_)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.simcluster.killed_cluster", str(folder)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        acknowledged = -1
        for line in process.stdout:
            acknowledged = int(line)
            if acknowledged >= 40 + 25 * round_:
                process.send_signal(signal.SIGKILL)
                break
        rest = process.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        assert process.wait(30) == -signal.SIGKILL
        back = Kept(folder, spec(counts=(10, 10, 10)))
        numbers = [int(key.job[-16:]) for key in back.engine.gangs]
        assert numbers in (list(range(acknowledged + 1)), list(range(acknowledged + 2)))
        assert all(found.created == 1 for found in back.engine.gangs.values())
        back.engine.advance(back.engine.now_ms + 10_000)
        assert {found.counts.succeeded for found in back.engine.gangs.values()} == {1}
        back.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "hanse-test", str(tmp_path)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(kept: Kept) -> str:
    """Write until it is refused; gives the refusal."""
    for number in range(100):
        try:
            kept.do(Hold(gang(number), 1, (), bytes(30_000)))
        except Unavailable as error:
            return str(error)
    raise AssertionError("the disk never became full")


def test_a_full_disk_refuses_and_recovers(small_disk: Path) -> None:
    kept = Kept(small_disk / "state")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    kept.do(CLAIM)
    refusal = fill(kept)
    assert "No space left on device; nothing was done" in refusal
    assert "\n" not in refusal
    number = len(kept.engine.gangs)
    with pytest.raises(Unavailable):
        kept.do(Hold(gang(number), 1, (), bytes(30_000)))
    ballast.unlink()
    assert kept.do(Hold(gang(number), 1, (), bytes(30_000))) == [""]
    kept.die()
    back = Kept(small_disk / "state")
    assert len(back.engine.gangs) == number + 1
    back.close()


def test_a_full_disk_does_not_hurt_while_a_snapshot_is_made(small_disk: Path) -> None:
    """The snapshot needs room that is not there; the long log goes on until there is."""
    kept = Kept(small_disk / "state", limits=SMALL_LOGS)
    kept.do(CLAIM)
    for number in range(6):
        kept.do(Hold(gang(number), 1, (), bytes(60_000)))
    logs = len(log_files(small_disk / "state"))
    ballast = small_disk / "ballast"
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    ballast.write_bytes(bytes(max(0, free - 100_000)))
    for number in range(6, 8):
        kept.do(Hold(gang(number), 1, (), bytes(30_000)))
    assert len(log_files(small_disk / "state")) == logs
    ballast.unlink()
    kept.do(Hold(gang(8), 1, (), bytes(10_000)))
    kept.die()
    back = Kept(small_disk / "state")
    assert len(back.engine.gangs) == 9
    back.close()


def test_a_limit_on_file_size_is_a_full_disk_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.simcluster.limited_cluster", str(tmp_path / "state")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    fitted, refusal, then, after = done.stdout.splitlines()
    assert "File too large; nothing was done" in refusal
    assert (int(then), int(after)) == (int(fitted), int(fitted) + 1)
    back = Kept(tmp_path / "state")
    assert len(back.engine.gangs) == int(fitted) + 1


def test_claims_are_kept_with_their_order(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    newer = Claim("fed", EpochId(1, 11), 5)
    assert kept.do(CLAIM, newer) == ["", ""]
    assert kept.do(CLAIM)[0] != ""
    kept.die()
    assert Kept(tmp_path).engine.claim == newer


def test_resources_are_kept_exactly(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.do(CLAIM, hold([0], gpus=3), start())
    kept.die()
    back: Engine = Kept(tmp_path).engine
    assert back.gangs[gang()].hold.sets[0].resources == {NVIDIA_GPU: 3}
    assert (back.nodes.free == kept.engine.nodes.free).all()


def test_a_storage_that_was_closed_takes_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    storage: FileStorage = kept.storage
    kept.close()
    kept.close()
    with pytest.raises(Unavailable, match="closed"):
        storage.append(BEGIN_MS, [CLAIM])
