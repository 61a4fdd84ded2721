"""Gangs whose pods controllers make: which pod takes which place, how they are counted, what is done to them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.assigning import next_places
from hanse.agent.cluster.kubernetes.chores import Bind, Delete, LetGo, Remove, chores
from hanse.agent.cluster.kubernetes.clues import clue_of
from hanse.agent.cluster.kubernetes.kinds import End, end_of
from hanse.agent.cluster.kubernetes.names import GATE, PodKey
from hanse.agent.cluster.kubernetes.objects import ROOT, Meta
from hanse.agent.cluster.kubernetes.placing import patch_of
from hanse.agent.cluster.kubernetes.roots import RootState
from hanse.agent.cluster.kubernetes.stored import Root, Stored, decode, encode
from hanse.agent.cluster.kubernetes.tallying import Words, tally
from hanse.agent.cluster.kubernetes.verdicts import OwnPod, own_pod_of
from hanse.agent.cluster.port import PodCounts
from hanse.model.ids import FlavorName, NodeName
from tests.unit.agent_cluster.objects import FEDERATION, GANG, SET, pod, record
from tests.unit.agent_cluster.test_verdicts import UNSCHEDULABLE, exited

JOB = Root("batch/v1", "Job", "train", "root")
STORED = replace(Stored(record("n0", "n1")), namespace="jobs", roots=(JOB,))
LET = STORED.letting({(0, 0): "uid-0", (0, 1): "uid-1"})
UNDER_WAY = RootState()
JOBSET, KUBEFLOW = "jobset.sigs.k8s.io/", "training.kubeflow.org/"
INDEX = "batch.kubernetes.io/job-completion-index"
GATED = {"schedulingGates": [{"name": GATE}]}


def made(
    uid: str = "uid-0",
    *,
    index: int | None = None,
    labels: Mapping[str, str] | None = None,
    version: int = 1,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    deleted: bool = False,
) -> OwnPod:
    """A pod that a controller has made."""
    told = {**(labels or {}), **({} if index is None else {INDEX: str(index)}), "hanse.dev/federation": FEDERATION}
    meta = {"name": f"pod-{uid}", "namespace": "jobs", "uid": uid, "resourceVersion": str(version), "labels": told}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return own_pod_of(PodKey(GANG, "", -1), pod(meta, spec or {}, status or {}))


def phase(uid: str, word: str, **more: Any) -> OwnPod:
    """One that was let go."""
    return made(uid, spec={"nodeName": "n0"}, status={"phase": word}, **more)


def words(state: RootState = UNDER_WAY, *, late: str = "", refused: bool = False, settled: bool = True) -> Words:
    return Words({"root": state}, late, lambda _: refused, lambda _: settled)


# Which pod takes which place


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([made("a", index=0, spec=GATED)], {}, id="a gang waits for all of its pods"),
        pytest.param(
            [made("b", index=1, spec=GATED), made("a", index=0, spec=GATED)],
            {(0, 0): "a", (0, 1): "b"},
            id="by index",
        ),
        pytest.param(
            [made("b", index=2, spec=GATED), made("a", index=1, spec=GATED)],
            {(0, 0): "a", (0, 1): "b"},
            id="wherever the index begins",
        ),
        pytest.param(
            [made("b", spec=GATED), made("a", spec=GATED)], {(0, 0): "a", (0, 1): "b"}, id="by name where none tells"
        ),
        pytest.param(
            [made("a", index=0, spec=GATED), made("b", index=0, spec=GATED, version=2)], {}, id="one for each index"
        ),
        pytest.param(
            [made("a", index=0, spec=GATED), made("b", index=1, spec=GATED, deleted=True)],
            {},
            id="not one that goes",
        ),
        pytest.param([made("a", index=0), made("b", index=1)], {}, id="not one that was never gated"),
    ],
)
def test_the_first_pods_take_their_places_together(pods: list[OwnPod], expected: dict[Any, str]) -> None:
    assert {at: one.uid for at, one in next_places(STORED, pods).items()} == expected


def test_a_pod_that_is_made_anew_gets_no_place() -> None:
    there = [phase("uid-0", "Failed"), phase("uid-1", "Running"), made("new", index=0, spec=GATED)]
    assert next_places(LET, there) == {}
    assert next_places(replace(LET, follows=True), there) == {}


def test_one_that_has_succeeded_is_followed_where_a_job_has_more_to_do() -> None:
    there = [phase("uid-0", "Running"), phase("uid-1", "Succeeded"), made("new", index=2, spec=GATED)]
    assert next_places(LET, there) == {}
    (at, one) = next(iter(next_places(replace(LET, follows=True), there).items()))
    assert (at, one.uid) == ((0, 1), "new")


def test_a_late_set_takes_its_places_as_its_pods_come() -> None:
    held = record("n0", "n1")
    leader = replace(held.sets[0], name="leader", nodes=(NodeName("n2"),), flavor=FlavorName("h100"))
    stored = replace(STORED, record=replace(held, sets=(leader, held.sets[0])), late=(SET,))
    one = made("l", labels={"hanse.dev/pod-set": "leader"}, spec=GATED)
    found = next_places(stored, [one])
    assert {at: pod.uid for at, pod in found.items()} == {(0, 0): "l"}
    after = stored.letting({(0, 0): "l"})
    worker = made("w", index=1, labels={"hanse.dev/pod-set": SET}, spec=GATED)
    assert {at: pod.uid for at, pod in next_places(after, [worker]).items()} == {(1, 1): "w"}


@pytest.mark.parametrize(
    ("labels", "pod_set", "index"),
    [
        (
            {"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": "2", INDEX: "3"},
            "w",
            (2, 3),
        ),
        (
            {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "4"},
            "worker",
            (4,),
        ),
        ({"training.kubeflow.org/job-role": "launcher"}, "launcher", ()),
        ({"leaderworkerset.sigs.k8s.io/worker-index": "0"}, "leader", (0,)),
        ({"leaderworkerset.sigs.k8s.io/worker-index": "5"}, "worker", (5,)),
        ({"ray.io/node-type": "head", "ray.io/group": "headgroup"}, "head", ()),
        (
            {
                "ray.io/node-type": "worker",
                "ray.io/group": "gpu",
                "ray.io/worker-group-replica-index": "1",
                "ray.io/replica-host-index": "2",
            },
            "gpu",
            (1, 2),
        ),
        ({"volcano.sh/task-spec": "ps", "volcano.sh/task-index": "7"}, "ps", (7,)),
        ({INDEX: "9"}, "", (9,)),
    ],
)
def test_every_maker_says_it_in_words_of_its_own(
    labels: dict[str, str], pod_set: str, index: tuple[int, ...]
) -> None:
    clue = clue_of(Meta(name="p", labels=labels))
    assert (clue.pod_set[0] if clue.pod_set else "", clue.index) == (pod_set, index)


# How they are counted

DONE = RootState(end=End(True))
BROKEN = RootState(end=End(False, "BackoffLimitExceeded"))
GONE = RootState(gone=True)
LEFT = phase("uid-1", "Running", deleted=True)
DEAD = made("uid-1", spec={"nodeName": "n0"}, status={"phase": "Failed"}, deleted=True)
EXITED = made("uid-1", spec={"nodeName": "n0"}, status={"phase": "Failed", **exited(17)})


@pytest.mark.parametrize(
    ("stored", "pods", "said", "expected"),
    [
        pytest.param(STORED, [], words(), PodCounts(GANG, pending=2), id="its pods are to come"),
        pytest.param(LET, [phase("uid-0", "Running")], words(), {"running": 1, "missing": 1}, id="one is gone"),
        pytest.param(
            LET,
            [phase("uid-0", "Succeeded"), phase("uid-1", "Succeeded")],
            words(),
            PodCounts(GANG, running=2),
            id="its object has the last word",
        ),
        pytest.param(LET, [phase("uid-0", "Succeeded")], words(DONE), PodCounts(GANG, succeeded=2), id="it is done"),
        pytest.param(
            LET, [LEFT, phase("uid-0", "Succeeded")], words(DONE), {"succeeded": 1, "stopping": 1}, id="what is left"
        ),
        pytest.param(LET, [DEAD], words(settled=False), {"stopping": 1, "missing": 1}, id="told to go just now"),
        pytest.param(LET, [DEAD], words(), {"failed": 1, "missing": 1}, id="told to go by nobody that is known"),
        pytest.param(
            LET,
            [phase("uid-0", "Running"), EXITED],
            words(BROKEN),
            {"running": 1, "failed": 1, "exit_code": 17, "failure": "BackoffLimitExceeded", "infrastructure": False},
            id="it failed",
        ),
        pytest.param(
            LET,
            [phase("uid-0", "Running"), phase("uid-1", "Running")],
            words(GONE),
            {"running": 2, "infrastructure": True},
            id="somebody removed it",
        ),
        pytest.param(STORED, [], words(late="none came"), {"pending": 2, "failure": "none came"}, id="none came"),
        pytest.param(
            LET,
            [phase("uid-0", "Running"), made("uid-1", status={"phase": "Pending", **UNSCHEDULABLE})],
            words(refused=True),
            {"running": 1, "failed": 1, "infrastructure": True},
            id="the scheduler refuses one",
        ),
        pytest.param(replace(STORED, stopped=True), [], words(), {"missing": 2, "pending": 0}, id="stopped before"),
    ],
)
def test_counts(stored: Stored, pods: list[OwnPod], said: Words, expected: Any) -> None:
    counts = tally(GANG, stored, pods, said)
    assert counts.existing + counts.missing == 2
    if isinstance(expected, PodCounts):
        assert counts == expected
    else:
        assert {name: getattr(counts, name) for name in expected} == expected


def test_a_gang_that_somebody_removed_says_so() -> None:
    counts = tally(GANG, LET, [phase("uid-0", "Running")], words(GONE))
    assert counts.failure == "Job train was deleted from the cluster, and nobody who is asked here had ordered it"
    assert tally(GANG, replace(LET, stopped=True), [], words(GONE)).failure == ""
    assert tally(GANG, LET, [], words(RootState(end=End(True), gone=True))).failure == ""


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}, End(True)),
        ("Job", {"conditions": [{"type": "Complete", "status": "False"}]}, None),
        ("Job", {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}, None),
        ("JobSet", {"conditions": [{"type": "Completed", "status": "True"}]}, End(True)),
        (
            "PyTorchJob",
            {"conditions": [{"type": "Failed", "status": "True", "reason": "Failed", "message": "no"}]},
            End(False, "Failed: no"),
        ),
        (
            "Job",
            {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "x"}]},
            End(False, "DeadlineExceeded"),
        ),
        ("RayJob", {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Running"}, End(True)),
        ("RayJob", {"jobStatus": "FAILED", "message": "boom"}, End(False, "FAILED: boom")),
        ("RayCluster", {"state": "ready", "conditions": []}, None),
        ("Job", {"state": {"phase": "Aborted"}}, End(False, "Aborted")),
        ("AppWrapper", {"phase": "Succeeded"}, End(True)),
        ("LeaderWorkerSet", {"conditions": [{"type": "Available", "status": "True"}]}, None),
    ],
)
def test_every_kind_says_in_words_of_its_own_that_it_has_ended(
    kind: str, status: dict[str, Any], expected: End | None
) -> None:
    assert end_of(kind, ROOT.decode(json.dumps({"metadata": {}, "status": status}))) == expected


# What is done


@pytest.mark.parametrize(
    ("stored", "one", "over", "expected"),
    [
        pytest.param(LET, made("uid-0", spec=GATED), False, LetGo, id="what has a place is let go"),
        pytest.param(LET, made("new", spec=GATED), False, None, id="what has none stays"),
        pytest.param(LET, made("uid-0"), False, None, id="a scheduler binds it"),
        pytest.param(LET, made("uid-0", spec={"schedulerName": "hanse"}), False, Bind, id="or we do"),
        pytest.param(LET, phase("uid-0", "Running"), False, None, id="what runs, runs"),
        pytest.param(LET, phase("uid-0", "Running"), True, Delete, id="until the job is done"),
        pytest.param(replace(LET, stopped=True), phase("uid-0", "Running"), False, Delete, id="or stopped"),
        pytest.param(replace(LET, stopped=True), made("new", spec=GATED), False, None, id="what never ran is left"),
        pytest.param(LET, phase("uid-0", "Succeeded"), True, None, id="what has ended stays"),
    ],
)
def test_chores(stored: Stored, one: OwnPod, over: bool, expected: type | None) -> None:
    found = list(chores(stored, [one], over=over, lost=lambda _: False))
    assert [type(chore) for chore in found] == ([] if expected is None else [expected])


def test_a_pod_of_a_lost_node_is_removed() -> None:
    assert list(chores(LET, [LEFT], over=False, lost=lambda _: True)) == [Remove(LEFT)]


@pytest.mark.parametrize(
    ("affinity", "path"),
    [
        (None, "/spec/affinity"),
        ({"podAffinity": {}}, "/spec/affinity/nodeAffinity"),
        (
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        ),
    ],
)
def test_a_node_is_required_beside_what_the_pod_requires(affinity: dict[str, Any] | None, path: str) -> None:
    one = made("uid-0", spec={**GATED, **({"affinity": affinity} if affinity is not None else {})})
    patch = patch_of(LetGo(one, SET, 0, NodeName("n0")))
    assert [step["path"] for step in patch if step["op"] == "add" and "affinity" in step["path"]] == [path]
    assert patch[0] == {"op": "test", "path": "/metadata/uid", "value": "uid-0"}
    assert patch[-1] == {"op": "remove", "path": "/spec/schedulingGates/0"}


def test_each_alternative_of_a_pod_is_narrowed() -> None:
    terms = [{"matchExpressions": []}, {"matchFields": [{"key": "metadata.name"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    one = made("uid-0", spec={**GATED, "affinity": {"nodeAffinity": required}})
    paths = [step["path"] for step in patch_of(LetGo(one, SET, 0, NodeName("n0"))) if "affinity" in step["path"]]
    assert [path.rpartition("nodeSelectorTerms")[2] for path in paths] == ["/0/matchFields", "/1/matchFields/-"]


def test_a_record_knows_its_objects_and_who_was_let_go() -> None:
    uid = "5b4bba5c-9aa4-4f0d-9a58-6d1a4d7f4a32"
    stored = replace(STORED.letting({(0, 1): uid}), late=(SET,), follows=True)
    again = decode(GANG, encode(stored))
    assert again == stored
    assert again.place_of(uid) == (0, 1)
    assert again.place_of("5b4bba5c-9aa4-4f0d-0000-000000000000") == (0, 1), (
        "half of a uid tells as much as the whole"
    )
    assert again.place_of("uid-0") is None


def test_sets_that_have_ended_are_named() -> None:
    """Others are not: they run, or have pods that are still to come."""
    sets = replace(record("n0").sets[0], name="driver"), record("n0", "n1").sets[0]
    held = replace(STORED, record=replace(STORED.record, sets=sets))
    stored = held.letting({(0, 0): "uid-0", (1, 0): "uid-1", (1, 1): "uid-2"})
    over, running = [phase(f"uid-{n}", "Failed") for n in range(3)], [phase(f"uid-{n}", "Running") for n in range(3)]
    assert tally(GANG, stored, running, words()).ended_sets == ()
    assert tally(GANG, stored, [over[0], *running[1:]], words()).ended_sets == ("driver",)
    assert tally(GANG, stored, running[1:], words()).ended_sets == ("driver",)
    assert tally(GANG, stored, over, words()).ended_sets == ("driver", SET)
    assert tally(GANG, held.letting({(0, 0): "uid-0"}), over[:1], words()).ended_sets == ("driver",)


def test_the_first_failure_is_told() -> None:
    def failed(uid: str, second: int, code: int) -> OwnPod:
        said = exited(code, at=f"2026-01-01T00:00:0{second}Z")
        return made(uid, spec={"nodeName": "n0"}, status={"phase": "Failed", **said})

    counts = tally(GANG, LET, [failed("uid-0", 2, 9), failed("uid-1", 1, 17)], words())
    assert (counts.failed, counts.exit_code, counts.reason, counts.infrastructure) == (2, 17, "Error", False)


def test_each_set_of_a_native_job_has_a_job_of_its_own() -> None:
    sets = replace(record("n0").sets[0], name="leader"), record("n1").sets[0]
    roots = (replace(JOB, uid="a", pod_set="leader"), replace(JOB, uid="b", pod_set=SET))
    held = replace(STORED, record=replace(STORED.record, sets=sets), roots=roots)
    stored = held.letting({(0, 0): "uid-0", (1, 0): "uid-1"})
    said = replace(words(), states={"a": DONE, "b": UNDER_WAY})
    counts = tally(GANG, stored, [phase("uid-0", "Succeeded"), phase("uid-1", "Running")], said)
    assert (counts.succeeded, counts.running, counts.ended_sets) == (1, 1, ("leader",))


def test_a_native_pod_is_told_its_rank_in_the_whole_job() -> None:
    meta = {"name": "p", "uid": "uid-0", "annotations": {"hanse.dev/ranks-before": "-4"}}
    one = own_pod_of(PodKey(GANG, SET, 0), pod(meta, GATED))
    patch = patch_of(LetGo(one, SET, 5, NodeName("n0")))
    assert {"op": "add", "path": "/metadata/labels/hanse.dev~1global-rank", "value": "1"} in patch
