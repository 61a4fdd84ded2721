"""Operator files become queues, cohorts, flavors and priority classes."""

from textwrap import dedent

import pytest

from hanse.manifests import QueueSpec, read_resources
from hanse.model.errors import InvalidArgument
from hanse.model.ids import FlavorName, QueueName, QueueUid
from hanse.model.queue import Cohort, Flavor, FlavorQuota, PriorityClass, QueueLimits
from hanse.model.resources import Resources
from hanse.model.selectors import Operator, Requirement

ALL = """
apiVersion: hanse/v1
kind: Cohort
name: lab
---
apiVersion: hanse/v1
kind: Queue
name: research
cohort: lab
held: true
labels: {team: vision}
quotas:
- flavor: h100
  nominal: {nvidia.com/gpu: 8192, cpu: 1k, memory: 1Ti}
- flavor: h200
  nominal: {nvidia.com/gpu: 8}
---
apiVersion: hanse/v1
kind: Flavor
name: h100
order: 1
description: hosts of 8 H100
labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
match: [{key: gpu, operator: Exists}]
---
apiVersion: hanse/v1
kind: PriorityClass
name: high
value: 1000
default: true
"""


def test_every_kind_is_read_in_order() -> None:
    assert read_resources(ALL) == (
        Cohort("lab"),
        QueueSpec(
            QueueName("research"),
            "lab",
            (
                FlavorQuota(
                    FlavorName("h100"), Resources({"nvidia.com/gpu": 8192, "cpu": 1_000_000, "memory": 2**40})
                ),
                FlavorQuota(FlavorName("h200"), Resources({"nvidia.com/gpu": 8})),
            ),
            True,
            {"team": "vision"},
        ),
        Flavor(
            FlavorName("h100"),
            1,
            (
                Requirement("nvidia.com/gpu.product", Operator.IN, ("NVIDIA-H100-80GB-HBM3",)),
                Requirement("gpu", Operator.EXISTS),
            ),
            "hosts of 8 H100",
        ),
        PriorityClass("high", 1000, True),
    )


def test_a_list_is_read_like_its_documents() -> None:
    text = (
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "hanse/v1", "kind": "Cohort", "name": "a"}]}'
    )
    assert read_resources(text) == (Cohort("a"),)


def test_limits_of_a_queue() -> None:
    text = "apiVersion: hanse/v1\nkind: Queue\nname: q\nlimits: {pending_jobs_max: 5, running_jobs_max: 2}"
    (found,) = read_resources(text)
    assert isinstance(found, QueueSpec)
    assert found.to_queue(QueueUid("abcdefgh")).limits == QueueLimits(5, 2)


def test_a_queue_gets_its_uid_from_the_server() -> None:
    queue = QueueSpec(QueueName("q"), "c", held=True).to_queue(QueueUid("abcdefgh"))
    assert (queue.uid, queue.name, queue.cohort, queue.held) == ("abcdefgh", "q", "c", True)


@pytest.mark.parametrize(
    ("body", "reason", "path"),
    [
        ("kind: Queue", "MISSING", "name"),
        ("kind: Queue\nname: A b", "NAME_INVALID", "name"),
        ("kind: Queue\nname: q\nqoutas: []", "UNKNOWN_FIELD", "qoutas"),
        ("kind: Queue\nname: q\nborrowing_limit: 8", "NOT_SUPPORTED", "borrowing_limit"),
        ("kind: Queue\nname: q\npreemption: {}", "NOT_SUPPORTED", "preemption"),
        ("kind: Queue\nname: q\nheld: maybe", "TYPE", "held"),
        ("kind: Queue\nname: q\nlimits: {running_jobs: 1}", "UNKNOWN_FIELD", "limits.running_jobs"),
        ("kind: Queue\nname: q\nlimits: {running_jobs_max: -1}", "LIMIT_OUT_OF_RANGE", "limits.running_jobs_max"),
        ("kind: Queue\nname: q\ncohort: B!", "NAME_INVALID", "cohort"),
        ("kind: Queue\nname: q\nquotas: [{flavor: a}]", "MISSING", "quotas[0].nominal"),
        ("kind: Queue\nname: q\nquotas: [{nominal: {}}]", "MISSING", "quotas[0].flavor"),
        ("kind: Queue\nname: q\nquotas: [{flavor: a, nominal: {cpu: -1}}]", "QUANTITY", "quotas[0].nominal.cpu"),
        (
            "kind: Queue\nname: q\nquotas: [{flavor: a, nominal: {}}, {flavor: a, nominal: {}}]",
            "DUPLICATE",
            "quotas[1]",
        ),
        (
            "kind: Queue\nname: q\nquotas: [{flavor: a, nominal: {}, lending_limit: 1}]",
            "NOT_SUPPORTED",
            "quotas[0].lending_limit",
        ),
        ("kind: Queue\nname: q\nlabels: {a: b c}", "LABEL_INVALID", "labels.a"),
        ("kind: Cohort\nname: c\nparent: c", "CONTRADICTION", "parent"),
        ("kind: Flavor\nname: f\norder: -1", "COUNT_OUT_OF_RANGE", "order"),
        ("kind: Flavor\nname: f\nmatch: [{key: a, operator: In}]", "SELECTOR_INVALID", "match[0]"),
        ("kind: PriorityClass\nname: p", "MISSING", "value"),
        ("kind: PriorityClass\nname: p\nvalue: 2000000000", "OUT_OF_RANGE", "value"),
        ("kind: PriorityClass\nname: p\nvalue: high", "TYPE", "value"),
        ("kind: Job\nname: p", "UNKNOWN_KIND", "kind"),
        ("kind: Queu\nname: p", "UNKNOWN_KIND", "kind"),
    ],
)
def test_files_that_make_no_sense_are_refused(body: str, reason: str, path: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_resources(f"apiVersion: hanse/v1\n{body}\n")
    assert (caught.value.reason, caught.value.path) == (reason, path)
    assert caught.value.line > 0


def test_a_name_is_used_once_per_kind() -> None:
    again = "apiVersion: hanse/v1\nkind: Queue\nname: research\n"
    with pytest.raises(InvalidArgument, match="in line 8 has this name too") as caught:
        read_resources(ALL + "---\n" + again)
    assert caught.value.reason == "DUPLICATE_NAME"
    read_resources(ALL + "---\n" + again.replace("Queue", "Cohort"))


def test_foreign_objects_are_refused() -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: q}\n"
    with pytest.raises(InvalidArgument, match="not applied") as caught:
        read_resources(dedent(text))
    assert caught.value.reason == "UNKNOWN_KIND"
