"""The `hanse` command against a federation of its own: what users type, and the shapes that scripts rely on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import pytest

from hanse.cli.main import run
from tests.arch.tree import ROOT
from tests.integration.processes import EXIT_DEADLINE_S, HANSE

Hanse: TypeAlias = Callable[..., SimpleNamespace]

FLEET: Final = """
flavors:
  - name: h100
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
priority_classes:
  - {name: normal, value: 5}
  - {name: urgent, value: 90}
queues:
  - {name: default, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 512}}]}
  - {name: research, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 64}}]}
pools:
  - name: iowa
    start_s: 0.1
    start_jitter_s: 0.1
    stop_s: 0.1
    groups:
      - node_prefix: iowa
        gpu: h100
        levels: [{name: block, count: 2}, {name: rack, count: 2}, {name: host, count: 8}]
  - name: oslo
    start_s: 0.1
    start_jitter_s: 0.1
    stop_s: 0.1
    groups:
      - node_prefix: oslo
        gpu: h100
        levels: [{name: rack, count: 2}, {name: host, count: 8}]
        busy: {fraction: 0.5, pattern: scattered, whole_hosts: 0.1}
"""
QUEUE: Final = """
apiVersion: hanse/v1
kind: Queue
name: vision
quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 8}}]
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A federation for this module."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "fleet.yaml").write_text(FLEET)
    options = ["--fleet", str(folder / "fleet.yaml"), "--store", "memory:", "--listen", "127.0.0.1:0", "-o", "json"]
    with subprocess.Popen([str(HANSE), "up", *options], stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        yield json.loads(up.stdout.readline())["address"]
        up.send_signal(signal.SIGTERM)
        assert up.wait(EXIT_DEADLINE_S) == 0


@pytest.fixture
def hanse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str) -> Hanse:
    """Runs the command in a home of its own; code, out, err, and `json` if the output is that."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HANSE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HANSE_SERVER", address)

    def call(*arguments: str) -> SimpleNamespace:
        capsys.readouterr()
        code = run(arguments)
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err, json=_json(said.out))

    return call


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def submitted(hanse: Hanse, name: str, *options: str, sleep: str = "60") -> str:
    """Submit one pod; the id."""
    said = hanse("submit", "--gpus", "8", "--name", name, *options, "-o", "json", "--", "sleep", sleep)
    assert said.code == 0, said
    return str(said.json["jobs"][0]["id"])


def test_a_job_from_flags_is_placed_shown_and_cancelled(hanse: Hanse, address: str) -> None:
    flags = ["--gpus", "64", "--per-pod", "8", "--flavor", "h100", "--required", "rack", "--wait", "running"]
    said = hanse("submit", *flags, "-o", "json", "--", "python", "train.py")
    assert said.code == 0, said
    job = said.json["jobs"][0]
    assert {name: job[name] for name in ("name", "queue", "state")} == {
        "name": "train",
        "queue": "default",
        "state": "RUNNING",
    }

    shown = hanse("job", "last", "--nodes", "-o", "json").json
    assert (shown["id"], shown["state"], shown["attempt"]) == (job["id"], "RUNNING", 1)
    assert {"reason", "conditions"} <= set(shown)
    part = shown["placement"][0]
    assert (part["pool"], part["flavor"], part["pods"]) == ("iowa", "h100", 8)
    assert {use["level"]: use["count"] for use in part["domains"]}["rack"] == 1
    assert len({node["name"] for node in shown["nodes"]}) == 8
    assert all({"name", "pod_set", "ranks", "path"} <= set(node) for node in shown["nodes"])
    assert sorted(rank for node in shown["nodes"] for rank in node["ranks"]) == list(range(8))

    told = hanse("explain", "last", "-o", "json").json
    assert {one["pool"]: one["fits"] for one in told["pools"]}["iowa"] is True
    assert set(told["pools"][0]) >= {"pool", "fits", "reason", "constraint", "wanted", "found"}
    assert "✔ iowa" in hanse("explain", "last").out
    assert "b" in hanse("job", "last", "--nodes").out
    assert hanse("logs", "last", "--rank", "3", "--tail", "1").code == 0
    ran = hanse("exec", "last", "--rank", "3", "--", "hostname")
    assert (ran.code, ran.out) == (0, "worker-3\n")
    failed = hanse("exec", "last", "--", "no-such-program", "-x")
    assert (failed.code, failed.out) == (127, "")
    assert failed.err.startswith("no-such-program: not found")
    assert hanse("exec", "last", "--rank", "9", "--", "true").code == 1
    piped = [str(HANSE), "exec", "-i", job["id"], "--server", address, "--", "cat"]
    read = subprocess.run(piped, input=b"piped\n", capture_output=True, check=True, timeout=EXIT_DEADLINE_S)
    assert read.stdout == b"piped\n"

    assert hanse("cancel", "last").code == 0
    done = hanse("wait", "last", "--timeout", "20", "-o", "json")
    assert (done.code, done.json["state"]) == (1, "CANCELLED")


def test_a_job_that_waits_says_why_for_every_pool(hanse: Hanse) -> None:
    flags = ["--gpus", "128", "--required", "block", "--wait", "placed"]
    for name in ("block-1", "block-2"):
        assert hanse("submit", *flags, "--name", name, "--", "sleep", "60").code == 0
    assert hanse("submit", *flags[:4], "--name", "late", "--", "sleep", "60").code == 0
    timed_out = hanse("wait", "late", "--for", "placed", "--timeout", "1")
    assert timed_out.code == 1
    assert timed_out.err == "late is not placed after 1 s; nothing was cancelled, see `hanse explain late`\n"
    told = hanse("explain", "late", "-o", "json").json
    assert told["state"] == "PENDING"
    why = {one["pool"]: one for one in told["pools"]}
    assert {name: (one["fits"], one["reason"]) for name, one in why.items()} == {
        "iowa": (False, "SHAPE"),
        "oslo": (False, "LEVEL_UNKNOWN"),
    }
    assert why["iowa"]["constraint"]
    assert (why["iowa"]["wanted"], why["iowa"]["found"]) == (16, 0)
    drawn = hanse("explain", "late").out
    assert drawn.startswith("late waits: ")
    assert "✘ iowa  shape" in drawn
    assert [one["name"] for one in hanse("jobs", "-s", "pending", "-o", "json").json["jobs"]] == ["late"]
    hanse("cancel", "late", "block-1", "block-2")


def test_waiting_ends_with_the_job_or_with_the_time(hanse: Hanse) -> None:
    submitted(hanse, "short", sleep="0.2")
    assert hanse("wait", "last", "--timeout", "20").code == 0
    submitted(hanse, "long")
    late = hanse("wait", "last", "--timeout", "0.5", "-o", "json")
    assert (late.code, late.json["error"]["reason"]) == (1, "WAIT_TIMEOUT")
    hanse("cancel", "last")


def test_the_same_request_id_submits_nothing_twice(hanse: Hanse) -> None:
    first = submitted(hanse, "once", "--request-id", "r-1")
    assert submitted(hanse, "once", "--request-id", "r-1") == first
    other = hanse("submit", "--gpus", "8", "--name", "other", "--request-id", "r-1", "-o", "json", "--", "x")
    assert (other.code, other.json["error"]["reason"]) == (1, "REQUEST_ID_REUSED")
    hanse("cancel", first)


def test_a_job_is_held_while_it_waits_and_released(hanse: Hanse) -> None:
    assert hanse("hold", "--queue", "research", "-o", "json").json["held"] is True
    job = submitted(hanse, "patient", "--queue", "research")
    told = hanse("explain", job, "-o", "json").json
    assert (told["state"], told["reason"]) == ("PENDING", "QUEUE_HELD")
    assert told["helps"][0]["change"] == "`hanse release --queue research`"
    held = hanse("hold", job, "-o", "json")
    assert (held.code, held.json["id"], held.json["held"], held.json["reason"]) == (0, job, True, "JOB_HELD")
    assert (held.json["held_by"], hanse("hold", "patient").code) == ("anonymous", 0)
    assert hanse("release", "--queue", "research", "-o", "json").json["held"] is False
    other = submitted(hanse, "impatient", "--queue", "research")
    assert hanse("wait", other, "--for", "running", "--timeout", "20").code == 0
    shown = hanse("job", job, "-o", "json").json
    assert (shown["state"], shown["reason"], shown["attempt"]) == ("PENDING", "JOB_HELD", 0)
    assert "`hanse release patient` lets it wait for places again" in hanse("job", job).out.replace(
        "\n             ", " "
    )
    assert "job held" in hanse("jobs", "--queue", "research").out
    assert hanse("explain", job, "-o", "json").json["reason"] == "JOB_HELD"
    assert hanse("release", "patient").code == 0
    assert hanse("wait", job, "--for", "running", "--timeout", "20").code == 0
    refused = hanse("hold", job, "-o", "json")
    assert (refused.code, refused.json["error"]["reason"]) == (1, "JOB_NOT_WAITING")
    plain = hanse("hold", job)
    assert plain.err == (
        "only a job that waits can be put on hold, this one is RUNNING; "
        "cancel it, or hold its queue so that nothing more of it starts\n"
    )
    hanse("cancel", job, other)


def test_a_new_priority_decides_who_is_next(hanse: Hanse) -> None:
    hanse("hold", "--queue", "research")
    first, second = (submitted(hanse, name, "--queue", "research", "--gpus", "40") for name in ("first", "second"))
    said = hanse("update", "second", "--priority", "urgent", "-o", "json").json
    assert (said["id"], said["priority"], said["priority_class"]) == (second, 90, "urgent")
    assert "priority urgent (90)" in hanse("job", "second").out
    unknown = hanse("update", "second", "--priority", "urgnt")
    assert (unknown.code, unknown.err) == (
        1,
        '--priority: priority class "urgnt" does not exist; did you mean "urgent"?\n',
    )
    hanse("release", "--queue", "research")
    assert hanse("wait", second, "--for", "running", "--timeout", "20").code == 0
    assert hanse("job", first, "-o", "json").json["state"] == "PENDING"
    late = hanse("update", second, "--priority", "normal", "-o", "json")
    assert (late.code, late.json["error"]["reason"]) == (1, "JOB_NOT_WAITING")
    hanse("cancel", first, second)


def test_a_job_that_has_ended_is_tried_again(hanse: Hanse) -> None:
    old = submitted(hanse, "again", "--label", "team=again", "--priority", "urgent")
    live = hanse("retry", old, "-o", "json")
    assert (live.code, live.json["error"]["reason"]) == (1, "JOB_NOT_ENDED")
    hanse("cancel", old)
    hanse("wait", old, "--timeout", "20")
    said = hanse("retry", "last", "--request-id", "again-1", "-o", "json").json
    assert (said["name"], said["retry_of"], said["priority_class"]) == ("again", old, "urgent")
    assert said["id"] != old
    assert hanse("retry", "last", "--request-id", "again-1", "-o", "json").json["id"] == said["id"]
    assert hanse("job", "last", "-o", "json").json["id"] == said["id"]
    assert hanse("wait", "last", "--for", "running", "--timeout", "20").code == 0
    hanse("cancel", "last")
    hanse("wait", "last", "--timeout", "20")
    waited = hanse("retry", said["id"], "--wait", "running", "--timeout", "20", "-o", "json")
    assert (waited.code, waited.json["state"], waited.json["retry_of"]) == (0, "RUNNING", said["id"])
    hanse("cancel", "last")
    done = submitted(hanse, "fine", sleep="0.1")
    assert hanse("wait", done, "--timeout", "20").code == 0
    refused = hanse("retry", "fine", "-o", "json")
    assert (refused.code, refused.json["error"]["reason"]) == (1, "JOB_SUCCEEDED")


def kinds_of(said: SimpleNamespace) -> list[str]:
    return [str(event["kind"]) for event in said.json["events"]]


def test_events_tell_the_life_of_a_job_in_words(hanse: Hanse) -> None:
    hanse("hold", "--queue", "research")
    job = submitted(hanse, "told", "--queue", "research", sleep="0.5")
    hanse("hold", job)
    hanse("update", job, "--priority", "urgent")
    hanse("release", job)
    hanse("release", "--queue", "research")
    followed = hanse("events", job, "-f", "-o", "json")
    assert followed.code == 0
    lines = [json.loads(line) for line in followed.out.splitlines()]
    assert [line["kind"] for line in lines][:5] == ["SUBMITTED", "HELD", "PRIORITY_CHANGED", "RELEASED", "BOUND"]
    assert [line["kind"] for line in lines][-2:] == ["RUNNING", "ENDED"]
    names = ["at", "kind", "job", "pool", "attempt", "reason", "message", "revision", "name"]
    assert all(list(line) == names and line["job"] == job and isinstance(line["at"], int) for line in lines)
    assert [line["revision"] for line in lines] == sorted(line["revision"] for line in lines)
    bound = next(line for line in lines if line["kind"] == "BOUND")
    assert (bound["attempt"], bound["message"]) == (1, f"bound to {bound['pool']} as attempt 1")
    past = hanse("events", "told", "-o", "json")
    assert set(past.json) == {"events", "remembered_since_ms", "replicas_silent", "older_left_out"}
    assert past.json["events"] == lines
    drawn = [line.split(maxsplit=3)[1:] for line in hanse("events", "told").out.splitlines()]
    assert ["told", "priority", "priority 90 instead of 0"] in drawn
    assert kinds_of(hanse("events", "told", "--limit", "2", "-o", "json")) == ["RUNNING", "ENDED"]


def test_events_of_a_retry_point_both_ways(hanse: Hanse) -> None:
    old = submitted(hanse, "stopped")
    hanse("cancel", old)
    hanse("wait", old, "--timeout", "20")
    new = hanse("retry", old, "-o", "json").json["id"]
    told = hanse("events", old, "-o", "json").json["events"]
    assert (told[-1]["kind"], told[-1]["message"]) == ("RETRIED", f"submitted once more, as {new}")
    first = hanse("events", new, "-o", "json").json["events"][0]
    assert (first["kind"], first["message"]) == ("SUBMITTED", f"submitted as a retry of {old}")
    hanse("cancel", new)


def test_events_of_a_pool(hanse: Hanse) -> None:
    hanse("cordon", "oslo", "--reason", "network")
    hanse("uncordon", "oslo")
    told = hanse("events", "--pool", "oslo", "-o", "json")
    assert kinds_of(told) == ["JOINED", "EPOCH_CHANGED", "ATTACHED", "CORDONED", "UNCORDONED"]
    assert all(event["pool"] == "oslo" and not event["job"] for event in told.json["events"])
    assert told.json["events"][3]["message"] == "cordoned, takes no new work: network"
    everything = hanse("events", "--limit", "1000", "-o", "json").json["events"]
    assert {event["kind"] for event in everything} >= {"JOINED", "CORDONED", "SUBMITTED"}
    assert kinds_of(hanse("events", "--pool", "oslo", "--since", "0s", "-o", "json")) == []


def test_events_that_cannot_be_told(hanse: Hanse) -> None:
    gone = hanse("events", "--since", "1d", "-o", "json")
    assert (gone.code, gone.json["error"]["reason"], gone.json["error"]["path"]) == (1, "EVENTS_GONE", "since_ms")
    told = hanse("events", "--pool", "olso")
    assert (told.code, told.err) == (
        1,
        'pool "olso" does not exist; did you mean "oslo"? (`hanse pools` lists them)\n',
    )
    assert hanse("events", "--since", "yesterday").err.startswith(
        "--since: 'yesterday' is neither a length nor a time"
    )
    assert hanse("events", "nobody").code == 1


def test_names(hanse: Hanse) -> None:
    ids = {name: submitted(hanse, name) for name in ("beta", "beta-2", "beta-3")}
    assert hanse("job", "beta", "-o", "json").json["id"] == ids["beta"]
    several = hanse("job", "beta-", "-o", "json")
    assert (several.code, several.json["error"]["reason"]) == (1, "JOB_AMBIGUOUS")
    assert "beta-3 (" in several.json["error"]["message"]
    assert hanse("cancel", "beta-3").code == 0
    assert hanse("wait", ids["beta-3"], "--timeout", "20").code == 1
    assert hanse("job", "beta-", "-o", "json").json["id"] == ids["beta-2"]
    assert hanse("job", "last", "-o", "json").json["id"] == ids["beta-3"]
    nobody = hanse("job", "nobody")
    assert (nobody.code, nobody.err.count("\n")) == (1, 1)
    hanse("cancel", "beta", "beta-2")


def test_last_is_the_newest_on_the_server_where_nothing_was_submitted_from(
    hanse: Hanse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newest = submitted(hanse, "newest")
    monkeypatch.setenv("HANSE_STATE_DIR", str(tmp_path / "elsewhere"))
    assert hanse("job", "last", "-o", "json").json["id"] == newest
    hanse("cancel", newest)


def test_watch_ends_with_its_job(hanse: Hanse) -> None:
    submitted(hanse, "seen", sleep="0.3")
    said = hanse("watch", "last", "-o", "json")
    states = [json.loads(line)["state"] for line in said.out.splitlines()]
    assert said.code == 0
    assert states[-1] == "SUCCEEDED"


def ids_of(said: SimpleNamespace) -> list[str]:
    """Ids of the jobs that were listed."""
    return [str(one["id"]) for one in said.json["jobs"]]


def test_lists_are_objects_with_a_list(hanse: Hanse) -> None:
    job = submitted(hanse, "listed", "--label", "team=vision")
    assert ids_of(hanse("jobs", "-l", "team=vision", "-o", "json")) == [job]
    hanse("cancel", job)
    hanse("wait", job)
    assert hanse("jobs", "-l", "team=vision", "-o", "json").json == {"jobs": []}
    assert ids_of(hanse("jobs", "--all", "-l", "team=vision", "-o", "json")) == [job]
    assert ids_of(hanse("jobs", "-s", "cancelled", "-l", "team=vision", "-o", "json")) == [job]
    assert [one["name"] for one in hanse("pools", "-o", "json").json["pools"]] == ["iowa", "oslo"]
    assert {one["name"] for one in hanse("queues", "-o", "json").json["queues"]} >= {"default", "research"}


def test_capacity_is_drawn_and_taken_out_of_service(hanse: Hanse) -> None:
    assert "in a block" in hanse("pools").out
    drawn = hanse("pool", "iowa", "--shape").out
    assert "one cell = one rack" in drawn
    assert "largest gang, h100" in drawn
    assert hanse("cordon", "iowa", "--reason", "network", "-o", "json").json["cordoned"] is True
    assert "cordoned: network" in hanse("pools").out
    assert hanse("uncordon", "iowa", "-o", "json").json["cordoned"] is False


def test_queues_are_applied_held_and_released(hanse: Hanse, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUE)
    assert hanse("apply", str(file), "--check", "-o", "json").json["objects"][0]["outcome"] == "CREATED"
    assert hanse("queue", "vision").code == 1
    assert hanse("apply", str(file)).code == 0
    assert hanse("apply", str(file), "-o", "json").json["objects"][0]["outcome"] == "UNCHANGED"
    assert hanse("queue", "vision", "--hold", "-o", "json").json["held"] is True
    assert hanse("queue", "vision", "--release", "-o", "json").json["held"] is False
    file.write_text(QUEUE.replace("h100", "h1000"))
    refused = hanse("apply", str(file))
    assert refused.code == 1
    assert refused.err.startswith(f"{file}: objects[0].queue.quotas[0].flavor: queue ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--gpus", "8", "--queue", "reserach"],
            '--queue: queue "reserach" does not exist; did you mean "research"?',
        ),
        (["--gpus", "8", "--flavor", "h10"], '--flavor: flavor "h10" does not exist; did you mean "h100"?'),
        (["--gpus", "8", "--required", "rakc"], '--required: no pool has a topology level "rakc"'),
        (["--gpus", "8", "--priority", "urgnt"], '--priority: priority class "urgnt" does not exist'),
    ],
)
def test_a_refusal_names_the_flag(hanse: Hanse, arguments: list[str], told: str) -> None:
    said = hanse("submit", *arguments, "--", "x")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(told)


def test_a_refusal_of_the_server_names_the_line_of_the_file(hanse: Hanse, tmp_path: Path) -> None:
    file = tmp_path / "llama.yaml"
    file.write_text((ROOT / "docs/examples/llama3-70b.yaml").read_text())
    said = hanse("submit", str(file))
    assert said.code == 1
    assert said.err.startswith(f'{file}:9: spec.queue: queue "high-priority-training" does not exist')


def test_machines_fail_and_come_back(hanse: Hanse) -> None:
    job = submitted(hanse, "hit")
    hanse("wait", job, "--for", "running")
    node = hanse("job", job, "--nodes", "-o", "json").json["nodes"][0]
    failed = hanse("sim", "fail", f"{node['pool']}/{node['name']}", "-o", "json").json
    assert failed["nodes"] == [node["name"]]
    assert [gang["job"] for gang in failed["gangs"]] == [job]
    assert hanse("sim", "restore", f"{node['pool']}/{node['name']}").code == 0
    unknown = hanse("sim", "fail", "nowhere/h1")
    assert (unknown.code, unknown.err.count("\n")) == (1, 1)
    hanse("cancel", job)


def test_version_knows_the_server(hanse: Hanse) -> None:
    told = hanse("version", "-o", "json").json
    assert told["server"]["version"] == told["client"]


def test_completion_asks_the_server(address: str) -> None:
    environment = {**os.environ, "_HANSE_COMPLETE": "complete_bash", "COMP_WORDS": "hanse pool o", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "hanse.cli"],
        env={**environment, "HANSE_SERVER": address},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stdout.split() == ["oslo"]
