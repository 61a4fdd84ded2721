"""What jobs of a queue may name in a cluster, as somebody tries it who would rather name something else."""

import json
from dataclasses import replace

import pytest

from hanse.apiserver.access.terms import LAX, STRICT, QueueTerms
from hanse.apiserver.catalog import Stored, Terms
from hanse.apiserver.queue_terms import check_priority, check_terms
from hanse.model.beside import Companion, Need, NeedKind
from hanse.model.errors import PermissionDenied
from hanse.model.ids import FlavorName, QueueName, QueueUid
from hanse.model.job import JobSpec, Manifest
from hanse.model.queue import FlavorQuota, PriorityClass, Queue
from hanse.model.resources import Resources
from tests.unit.apiserver.stage import spec

TERMS = QueueTerms(("vision",), ("trainer", "bot-*"), ("normal",), ("h100",))
QUEUE = Queue(QueueUid("aaaaaaaa"), QueueName("research"), quotas=(FlavorQuota(FlavorName("h100"), Resources()),))
KNOWN = Terms({}, {"normal": Stored(PriorityClass("normal", 5, default=True), 1)})


def job(text: str = "", *, namespace: str = "", **more: object) -> JobSpec:
    manifest = Manifest("PyTorchJob", "kubeflow.org/v1", namespace, text)
    return replace(spec(), manifest=manifest, **more)  # type: ignore[arg-type]


def refused(one: JobSpec, terms: QueueTerms = TERMS, queue: Queue = QUEUE) -> str:
    """Why a job is refused, "" if it is not."""
    try:
        check_terms(one, queue, terms, KNOWN)
    except PermissionDenied as error:
        return f"{error.path}: {error.message}" if error.reason == "NOT_ALLOWED_IN_QUEUE" else repr(error)
    return ""


def pod(**fields: object) -> str:
    """A pod deep inside another object, as JSON, which is YAML too."""
    return json.dumps({"kind": "PyTorchJob", "spec": {"replicas": [{"template": {"spec": fields}}]}})


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\nmetadata: {name: a, namespace: vision}\nspec: {serviceAccountName: trainer}",
        pod(serviceAccountName="bot-7", serviceAccount="default"),
        "kind: Pod\nspec:\n  serviceAccountName:\n",
        "#!/bin/bash\n#SBATCH -N 2\necho 'serviceAccountName: admin: [",
        "",
    ],
)
def test_what_a_queue_may_name(text: str) -> None:
    assert refused(job(text, namespace="vision")) == ""
    assert refused(job(text)) == ""


@pytest.mark.parametrize(
    "text",
    [
        pod(serviceAccountName="admin"),
        pod(serviceAccount="admin"),
        'kind: Pod\nspec: {"service\\u0041ccountName": admin}',
        'kind: Pod\nspec: {"\\x73erviceAccountName": admin}',
        'kind: Pod\nspec: {? "serviceAccountName" : "adm\\u0069n"}',
        "kind: Pod\nspec: {? serviceAccountName : admin}",
        "kind: Pod\nspec:\n  ? |-\n    serviceAccountName\n  : admin",
        "key: &k serviceAccountName\nspec: {*k : admin}",
        "base: &b {serviceAccountName: admin}\nspec: *b",
        "kind: A\n---\nkind: Pod\nspec: {serviceAccountName: admin}",
        "kind: AppWrapper\nspec: {components: [{template: {spec: {template: {spec: {serviceAccountName: admin}}}}}]}",
    ],
)
def test_a_service_account_by_whatever_spelling(text: str) -> None:
    said = refused(job(text))
    assert 'may not use service account "admin"; it may use trainer, bot-*' in said
    assert said.startswith("manifest.text: ")


@pytest.mark.parametrize(
    ("one", "path"),
    [
        (job(namespace="kube-system"), "manifest.namespace"),
        (job("metadata: {namespace: kube-system}"), "manifest.text"),
        (
            job("spec: {list: [{template: {metadata: {namespace: kube-system}}}]}", namespace="vision"),
            "manifest.text",
        ),
        (job('metadata: {"n\\u0061mespace": kube-system}'), "manifest.text"),
    ],
)
def test_a_namespace_by_field_and_by_text(one: JobSpec, path: str) -> None:
    assert refused(one) == (
        f'{path}: jobs of queue "research" may not use namespace "kube-system"; it may use vision'
        " (the access policy says so)"
    )


def test_what_a_client_lists_is_looked_at_and_what_it_leaves_out_does_not_help() -> None:
    listed = replace(spec(), needs=(Need(NeedKind.SERVICE_ACCOUNT, "admin"),))
    assert refused(listed).startswith("needs: ")
    assert refused(replace(job(pod(serviceAccountName="admin")), needs=())).startswith("manifest.text: ")
    beside = replace(spec(), companions=(Companion("Service", "s", "metadata: {namespace: kube-system}"),))
    assert refused(beside).startswith("companions[0].text: ")


def test_a_queue_of_which_nothing_is_said_names_nothing_and_one_without_a_policy_everything() -> None:
    assert "it may name none" in refused(job(namespace="vision"), STRICT)
    assert "it may name none" in refused(job(pod(serviceAccountName="trainer")), STRICT)
    assert refused(job(pod(serviceAccountName="default")), STRICT) == ""
    assert refused(job(pod(serviceAccountName="admin"), namespace="kube-system"), LAX) == ""


def test_priority_classes_and_the_one_that_is_the_default() -> None:
    assert refused(replace(spec(), priority_class="normal")) == ""
    assert refused(replace(spec(), priority_class="urgent")).startswith("priority_class: ")
    assert refused(spec()) == ""
    assert refused(spec(), replace(TERMS, priority_classes=("low",))).startswith("priority_class: ")
    with pytest.raises(PermissionDenied):
        check_priority("urgent", "research", TERMS)


def test_flavors_that_are_named_and_those_that_the_quota_would_give() -> None:
    [workers] = spec().pod_sets
    a100 = FlavorName("a100")
    assert refused(replace(spec(), pod_sets=(replace(workers, flavors=(a100,)),))).startswith("pod_sets[0].flavors: ")
    both = replace(QUEUE, quotas=(*QUEUE.quotas, FlavorQuota(a100, Resources())))
    assert refused(spec(), queue=both).startswith("pod_sets[0].flavors: ")
    assert refused(replace(spec(), pod_sets=(replace(workers, flavors=(FlavorName("h100"),)),)), queue=both) == ""
