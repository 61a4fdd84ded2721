"""A support bundle holds what is named, is bounded, and none of the secrets that lie about everywhere."""

import io
import json
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from hanse.cli.bundle import packing
from hanse.cli.bundle.allowed import log_told, metrics_told, settings_told
from hanse.cli.bundle.packing import packed, write_bundle
from hanse.cli.commands import bundling
from hanse.cli.main import run
from hanse.kit.telemetry import metrics
from hanse.kit.telemetry.exposition import exposition
from tests.unit.cli.test_doctor import well

SECRET = "hunter2-S3CRET"


def opened(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        found = {}
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            found[member.name.removeprefix("hanse-support/")] = file.read()
        return found


# ---- what is told --------------------------------------------------------------------------------------------


def test_settings_are_told_as_numbers_and_switches_and_of_texts_whether_they_are_set() -> None:
    given = {
        "store": f"etcd://root:{SECRET}@10.0.0.1:2379",
        "log_level": "warning",
        "streams_max": 100,
        "exec_allowed": True,
        "peer_token_file": "",
        "api": {"password": SECRET},
        "replica": f"{SECRET} with spaces",
        SECRET: 1,
        "pin": 4711,
    }
    assert settings_told(given, bundling._setting_names()) == {
        "store": "(set)",
        "log_level": "warning",
        "streams_max": 100,
        "exec_allowed": True,
        "peer_token_file": "(empty)",
        "api": "(set)",
        "replica": "(set)",
    }


def test_lines_of_a_log_keep_the_fields_that_are_named() -> None:
    lines = [
        '{"time": "2026-12-01T00:00:00Z", "level": "info", "event": "job_moved", "job": "j-1",'
        f' "cause": "{SECRET}"}}',
        f'2026-12-01T00:00:00.000Z warning reports_unavailable pool=oslo cause="a {SECRET}" attempt=2',
        f"Traceback: {SECRET}",
        f'{{"event": "{SECRET}"}}',
        '{"event": "',
    ]
    assert [json.loads(line) for line in log_told(lines)] == [
        {"time": "2026-12-01T00:00:00Z", "level": "info", "event": "job_moved", "job": "j-1"},
        {
            "time": "2026-12-01T00:00:00.000Z",
            "level": "warning",
            "event": "reports_unavailable",
            "pool": "oslo",
            "attempt": "2",
        },
    ]


def test_of_a_page_of_metrics_the_products_own_are_kept() -> None:
    page = exposition(metrics.REGISTRY.collect(), {}) + f'foreign_metric{{token="{SECRET}"}} 1\n# {SECRET}\n'
    names = bundling._metric_names()
    told = list(metrics_told(f'hanse_pending_jobs 3\nhanse_pool_gangs{{hanse_pool="oslo"}} 2\n{page}', names))
    assert told[:2] == ["hanse_pending_jobs 3", 'hanse_pool_gangs{hanse_pool="oslo"} 2']
    assert not [line for line in told if SECRET in line or line.startswith("foreign")]


# ---- the file ------------------------------------------------------------------------------------------------


def test_a_file_that_is_too_long_keeps_its_newest_lines_and_one_without_room_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "FILE_BYTES_MAX", 100)
    monkeypatch.setattr(packing, "BUNDLE_BYTES_MAX", 150)
    files = {"log": "".join(f"line {number}\n" for number in range(1_000)), "more": "x" * 90, "small": "y"}
    found = opened(packed(files, {"command": "1"}, now_s=1))
    assert found["log"].endswith(b"line 999\n")
    assert found["log"].startswith(b"line")
    assert len(found["log"]) <= 100
    manifest = json.loads(found["manifest.json"])
    assert set(manifest["files"]) == {"log", "small"}
    assert manifest["cut"] == ["log", "more"]


def test_only_its_owner_reads_it_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    write_bundle(path, b"x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_bundle(path, b"y")


# ---- all of it -----------------------------------------------------------------------------------------------


def spoiled_with_secrets() -> Mapping[str, str]:
    """What a server told, with a secret in every text that people write; as the files that are packed."""
    found = well()
    assert found.status is not None
    assert found.pools
    assert found.queues
    assert found.waiting
    found.who.principal = SECRET  # type: ignore[union-attr]
    found.status.degraded.append(SECRET)
    found.status.server.replicas[0].address = f"{SECRET}:1"
    found.status.replicas[0].address = f"{SECRET}:1"
    pool, queue, job = found.pools[0], found.queues[0], found.waiting[0]
    pool.labels["token"] = pool.cordon_reason = pool.message = SECRET
    pool.cordoned = True
    queue.labels["token"] = SECRET
    job.name = SECRET
    job.spec.labels["env"] = SECRET
    job.spec.pod_sets[0].topology.required_level = SECRET
    return bundling.server_files(found, [{"at": 1, "kind": "BOUND", "job": "j", "message": SECRET, "name": SECRET}])


def test_no_text_that_people_write_is_packed() -> None:
    files = spoiled_with_secrets()
    assert set(files) >= {"status.json", "pools.json", "queues.json", "events.json", "findings.json"}
    data = packed(files, {}, now_s=1)
    assert SECRET.encode() not in b"".join(opened(data).values())
    assert json.loads(files["pools.json"])[0]["name"] == "oslo"
    assert {one["code"] for one in json.loads(files["findings.json"])} == {"POOL_CORDONED", "LEVEL_UNKNOWN"}


def test_where_nobody_answers_a_bundle_holds_what_this_machine_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HANSE_TOKEN", SECRET)
    monkeypatch.setenv("HANSE_CONFIG", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    log, settings, path = tmp_path / "r0.log", tmp_path / "r0.yaml", tmp_path / "b.tar.gz"
    log.write_text(f'{{"event": "store_away", "cause": "{SECRET}", "replica": "r0"}}\n')
    settings.write_text(f"store: etcd://root:{SECRET}@e:2379\nstreams_max: 7\n")
    words = ["support-bundle", str(path), "--log", str(log), "--settings", str(settings), "--server", "127.0.0.1:1"]
    assert run(words) == 0
    found = opened(path.read_bytes())
    assert json.loads(found["log-0.jsonl"]) == {"event": "store_away", "replica": "r0"}
    assert json.loads(found["settings-0.json"]) == {"store": "(set)", "streams_max": 7}
    assert json.loads(found["manifest.json"])["not_answered"]["server"]
    assert SECRET.encode() not in b"".join(found.values())
    assert "look into it" in capsys.readouterr().out
    assert run(words) == 1, "a bundle that is there is not overwritten"
