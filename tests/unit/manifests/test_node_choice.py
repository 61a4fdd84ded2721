"""nodeSelector and node affinity together select what both select, and nothing more."""

import pytest

from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration
from tests.unit.manifests.texts import batch_job, job_of, refusal, unmapped

REQUIRED = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: %s}}}"


def selector(pod: str) -> Selector:
    return job_of(batch_job(pod)).spec.pod_sets[0].selector


def test_no_condition_selects_every_node() -> None:
    assert selector("") == Selector()


def test_a_node_selector_is_one_requirement_per_label() -> None:
    found = selector('nodeSelector: {gpu: h100, "feature.node.kubernetes.io/pci-10de.present": "true"}')
    assert found == Selector(
        (
            (
                Requirement("gpu", Operator.IN, ("h100",)),
                Requirement("feature.node.kubernetes.io/pci-10de.present", Operator.IN, ("true",)),
            ),
        )
    )


@pytest.mark.parametrize(
    ("expression", "requirement"),
    [
        ("{key: a, operator: In, values: [x, z]}", Requirement("a", Operator.IN, ("x", "z"))),
        ("{key: a, operator: NotIn, values: [x]}", Requirement("a", Operator.NOT_IN, ("x",))),
        ("{key: a, operator: Exists}", Requirement("a", Operator.EXISTS)),
        ("{key: a, operator: DoesNotExist, values: []}", Requirement("a", Operator.DOES_NOT_EXIST)),
        ('{key: a, operator: Gt, values: ["7"]}', Requirement("a", Operator.GT, ("7",))),
        ('{key: a, operator: Lt, values: ["-7"]}', Requirement("a", Operator.LT, ("-7",))),
        ('{key: a, operator: In, values: [""]}', Requirement("a", Operator.IN, ("",))),
    ],
)
def test_every_operator_is_read(expression: str, requirement: Requirement) -> None:
    assert selector(REQUIRED % f"[{{matchExpressions: [{expression}]}}]") == Selector(((requirement,),))


def test_a_node_selector_is_added_to_every_alternative() -> None:
    terms = "[{matchExpressions: [{key: a, operator: Exists}]}, {matchExpressions: [{key: b, operator: Exists}]}]"
    extra = Requirement("zone", Operator.IN, ("z1",))
    assert selector((REQUIRED % terms) + "\nnodeSelector: {zone: z1}") == Selector(
        (
            (Requirement("a", Operator.EXISTS), extra),
            (Requirement("b", Operator.EXISTS), extra),
        )
    )


def test_an_empty_alternative_selects_nothing_and_is_dropped() -> None:
    found = selector(REQUIRED % "[{}, {matchExpressions: [{key: a, operator: Exists}]}]")
    assert found == Selector(((Requirement("a", Operator.EXISTS),),))


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (REQUIRED % "[]", "SELECTOR_INVALID"),
        (REQUIRED % "[{}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: []}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: [{key: a, operator: In}]}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: [{key: a, operator: Exists, values: [x]}]}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: [{key: a, operator: Gt, values: [x]}]}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: [{key: a, operator: Gt, values: ['1', '2']}]}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: [{key: 'a b', operator: Exists}]}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: [{key: a, operator: In, values: ['x z']}]}]", "SELECTOR_INVALID"),
        (REQUIRED % "[{matchExpressions: [{key: a, operator: Equals, values: [x]}]}]", "UNKNOWN_VALUE"),
        (REQUIRED % "[{matchExpressions: [{key: a, operator: In, values: [true]}]}]", "TYPE"),
        (REQUIRED % "[{matchExpressions: [{operator: Exists}]}]", "MISSING"),
        (REQUIRED % "[{matchExpressions: [{key: a, operater: Exists}]}]", "UNKNOWN_FIELD"),
        (REQUIRED % "[{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]", "NOT_SUPPORTED"),
        ("nodeSelector: {gpu: 1}", "TYPE"),
        ("nodeSelector: {country: NO}", "TYPE"),
        ("nodeSelector: {'a/b/c': x}", "SELECTOR_INVALID"),
        ("nodeName: n1", "NOT_SUPPORTED"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(pod: str, reason: str) -> None:
    found, path, line = refusal(batch_job(pod))
    assert found == reason
    assert path.startswith("spec.template.spec.")
    assert line > 0


def test_what_is_not_evaluated_is_named() -> None:
    pod = """
    affinity:
      podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: []}
      nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}
    topologySpreadConstraints: []
    schedulerName: kai
    """
    at = "spec.template.spec."
    assert set(unmapped(batch_job(pod))) == {
        f"{at}affinity.podAntiAffinity",
        f"{at}affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        f"{at}topologySpreadConstraints",
        f"{at}schedulerName",
    }


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("{operator: Exists}", Toleration(exists=True)),
        ("{key: a, operator: Exists}", Toleration("a", exists=True)),
        ("{key: a, value: x}", Toleration("a", value="x")),
        ("{key: a, operator: Equal, value: x, effect: NoSchedule}", Toleration("a", False, "x", Effect.NO_SCHEDULE)),
        ("{key: a, operator: Exists, effect: NoExecute}", Toleration("a", True, "", Effect.NO_EXECUTE)),
        ('{key: a, operator: Exists, effect: ""}', Toleration("a", True)),
    ],
)
def test_a_toleration_is_read(written: str, wanted: Toleration) -> None:
    assert job_of(batch_job(f"tolerations: [{written}]")).spec.pod_sets[0].tolerations == (wanted,)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("{value: x}", "TOLERATION_INVALID"),
        ("{key: a, operator: Exists, value: x}", "TOLERATION_INVALID"),
        ("{key: a, operator: Is}", "UNKNOWN_VALUE"),
        ("{key: a, effect: Never}", "UNKNOWN_VALUE"),
    ],
)
def test_a_toleration_that_makes_no_sense_is_refused(written: str, reason: str) -> None:
    assert refusal(batch_job(f"tolerations: [{written}]"))[0] == reason


def test_a_time_limit_of_a_toleration_is_named() -> None:
    text = batch_job("tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]")
    assert set(unmapped(text)) == {"spec.template.spec.tolerations[0].tolerationSeconds"}
