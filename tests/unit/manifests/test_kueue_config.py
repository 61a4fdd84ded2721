"""Kueue's configuration as queues, flavors and levels."""

import pytest

from hanse.manifests import ImportedConfig, read_kueue
from hanse.manifests.resource_files import QueueSpec
from hanse.model.errors import InvalidArgument
from hanse.model.placement import Level
from hanse.model.queue import Cohort, Flavor, FlavorQuota, PriorityClass
from hanse.model.resources import CPU, Resources
from hanse.model.selectors import Operator, Requirement

GPU = "nvidia.com/gpu"


def queue(spec: str, *, version: str = "v1beta1", name: str = "gpu-gang") -> str:
    return f"apiVersion: kueue.x-k8s.io/{version}\nkind: ClusterQueue\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def other(kind: str, spec: str, *, name: str = "one", head: str = "") -> str:
    body = f"spec: {{{spec}}}" if spec else ""
    return f"apiVersion: kueue.x-k8s.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}{head}}}\n{body}\n"


def group(*flavors: str, covered: str = GPU) -> str:
    return f"{{coveredResources: [{covered}], flavors: [{', '.join(flavors)}]}}"


def flavor(name: str, **amounts: object) -> str:
    resources = ", ".join(f"{{name: {key}, nominalQuota: {value}}}" for key, value in amounts.items())
    return f"{{name: {name}, resources: [{resources}]}}"


def gpus(name: str, count: int) -> str:
    return f"{{name: {name}, resources: [{{name: {GPU}, nominalQuota: {count}}}]}}"


def read(*documents: str) -> ImportedConfig:
    return read_kueue("---\n".join(documents))


def unmapped(*documents: str) -> dict[str, str]:
    return {one.path: one.why for one in read(*documents).unmapped}


def refusal(*documents: str) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        read(*documents)
    assert caught.value.line
    return caught.value.reason, caught.value.path


@pytest.mark.parametrize(("version", "cohort"), [("v1beta1", "cohort"), ("v1beta2", "cohortName")])
def test_a_cluster_queue_is_a_queue_with_its_quota(version: str, cohort: str) -> None:
    groups = f"resourceGroups: [{group(gpus('dgx-h100', 512))}]"
    checks = "admissionChecks: [topology-aware-placement]"
    found = read(queue(f"{groups}, {checks}, {cohort}: lab", version=version))
    quota = FlavorQuota("dgx-h100", Resources({GPU: 512}))  # type: ignore[arg-type]
    assert found.objects == (QueueSpec("gpu-gang", cohort="lab", quotas=(quota,)),)  # type: ignore[arg-type]
    assert found.implied == (Cohort("lab"),)
    assert [one.path for one in found.unmapped] == ["spec.admissionChecks[0]"]
    assert "not needed" in found.unmapped[0].why


def test_flavors_keep_their_order_and_a_quota_of_nothing_is_none() -> None:
    text = queue(f"resourceGroups: [{group(gpus('a', 8), gpus('b', 0), gpus('c', 16))}]")
    (found,) = read(text).objects
    assert isinstance(found, QueueSpec)
    assert [quota.flavor for quota in found.quotas] == ["a", "c"]
    assert "spec.resourceGroups[0].flavors[1]" in unmapped(text)


def test_several_groups_are_quotas_by_flavor_and_told() -> None:
    groups = f"resourceGroups: [{group(gpus('gpu', 8))}, {group(flavor('any', cpu=4), covered='cpu')}]"
    (found,) = read(queue(groups)).objects
    assert isinstance(found, QueueSpec)
    assert [(q.flavor, dict(q.nominal)) for q in found.quotas] == [("gpu", {GPU: 8}), ("any", {CPU: 4000})]
    assert "spec.resourceGroups[1]" in unmapped(queue(groups))


@pytest.mark.parametrize(("policy", "held"), [("None", False), ("Hold", True), ("HoldAndDrain", True)])
def test_a_stopped_queue_is_held(policy: str, held: bool) -> None:
    (found,) = read(queue(f"stopPolicy: {policy}")).objects
    assert isinstance(found, QueueSpec)
    assert found.held is held


def test_flavors_match_their_labels_and_those_without_are_asked_last() -> None:
    plain, labelled = read(
        other("ResourceFlavor", "", name="any"), other("ResourceFlavor", "nodeLabels: {gpu: h100}", name="h100")
    ).objects
    assert isinstance(plain, Flavor)
    assert isinstance(labelled, Flavor)
    assert labelled.requirements == (Requirement("gpu", Operator.IN, ("h100",)),)
    assert plain.order > labelled.order


def test_cohorts_priority_classes_and_their_order() -> None:
    found = read(
        queue("cohort: team"),
        other("Cohort", "parentName: lab", name="team"),
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 9\n",
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: low}\n"
        "value: 1\nglobalDefault: true\n",
    )
    assert found.objects[:3] == (
        PriorityClass("high", 9),
        PriorityClass("low", 1, default=True),
        Cohort("team", parent="lab"),
    )
    assert found.implied == (Cohort("lab"),)


def test_a_topology_is_levels_without_the_host() -> None:
    labels = ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", "kubernetes.io/hostname")
    spec = f"levels: [{', '.join(f'{{nodeLabel: {label}}}' for label in labels)}]"
    (found,) = read(other("Topology", spec)).levels
    assert found.levels == (Level(labels[0], "block"), Level(labels[1], "rack"))


def test_levels_that_would_share_an_alias_have_none() -> None:
    (found,) = read(other("Topology", "levels: [{nodeLabel: a/rack}, {nodeLabel: b/rack}]")).levels
    assert [level.alias for level in found.levels] == ["", ""]


def test_local_queues_are_aliases_of_their_queue() -> None:
    locals_ = [
        other("LocalQueue", f"clusterQueue: {target}", name=name, head=f", namespace: {namespace}")
        for name, namespace, target in (
            ("team", "a", "gpu-gang"),
            ("team", "b", "gpu-gang"),
            ("gpu-gang", "c", "gpu-gang"),
        )
    ]
    (found,) = read(*locals_, queue("")).objects
    assert isinstance(found, QueueSpec)
    assert found.aliases == ("team",)
    assert unmapped(*locals_, queue("")).keys() <= {"spec.namespaceSelector"}


def test_a_local_queue_that_means_two_queues_or_one_elsewhere_is_told() -> None:
    first, second = (
        other("LocalQueue", f"clusterQueue: {target}", name="team", head=f", namespace: {target}") for target in "ab"
    )
    assert "already" in unmapped(first, second, queue("", name="a"), queue("", name="b"))["spec.clusterQueue"]
    assert "does not describe" in unmapped(first)["spec.clusterQueue"]


def test_what_is_not_acted_on_is_told() -> None:
    spec = (
        "preemption: {}, fairSharing: {}, namespaceSelector: {}, queueingStrategy: StrictFIFO, flavourFungibility: {}"
    )
    assert set(unmapped(queue(spec))) == {
        "spec.preemption",
        "spec.fairSharing",
        "spec.namespaceSelector",
        "spec.queueingStrategy",
        "spec.flavourFungibility",
    }


@pytest.mark.parametrize(
    ("text", "reason", "path"),
    [
        (
            queue(f"resourceGroups: [{group(gpus('a', 8), gpus('a', 8))}]"),
            "DUPLICATE",
            "spec.resourceGroups[0].flavors[1].name",
        ),
        (
            queue(f"resourceGroups: [{group(flavor('a', cpu=1))}]"),
            "CONTRADICTION",
            "spec.resourceGroups[0].flavors[0].resources[0].name",
        ),
        (
            queue(f"resourceGroups: [{group(gpus('a', 8).replace('8', '-8'))}]"),
            "QUANTITY",
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        ),
        (queue("stopPolicy: Stop"), "UNKNOWN_VALUE", "spec.stopPolicy"),
        (other("ClusterQueues", "x: 1"), "UNKNOWN_KIND", "kind"),
        (other("Topology", "levels: []"), "TOO_MANY", "spec.levels"),
        (
            other("Topology", "levels: [{nodeLabel: kubernetes.io/hostname}, {nodeLabel: a/b}]"),
            "LEVEL_INVALID",
            "spec.levels[0].nodeLabel",
        ),
        (other("Cohort", "parent: one"), "CONTRADICTION", "spec.parent"),
        (other("ResourceFlavor", "nodeLabels: {'a b': c}"), "SELECTOR_INVALID", 'spec.nodeLabels["a b"]'),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_stands(text: str, reason: str, path: str) -> None:
    assert refusal(text) == (reason, path)


def test_the_same_object_twice_is_refused() -> None:
    assert refusal(queue(""), queue(""))[0] == "DUPLICATE_NAME"
