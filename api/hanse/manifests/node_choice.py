"""Which nodes a pod may use: nodeSelector, node affinity and tolerations to the model's selector and tolerations.

`nodeSelector` is ANDed into every term of the required node affinity. Terms are alternatives, so appending a term
would let a pod escape what the other source demands. A term that names nodes (`matchFields`) is refused: nodes are
chosen by label, and a condition that is left out of an alternative would widen it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hanse.manifests.fields import Field
from hanse.manifests.notes import Notes, audit
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration
from hanse.model.validate import check_requirement

OPERATORS: Final[Mapping[str, Operator]] = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GT,
    "Lt": Operator.LT,
}
OWN_OPERATORS: Final[Mapping[str, Operator]] = {**OPERATORS, "VersionAtLeast": Operator.VERSION_AT_LEAST}
EFFECTS: Final[Mapping[str, Effect]] = {
    "": Effect.UNSPECIFIED,
    "NoSchedule": Effect.NO_SCHEDULE,
    "PreferNoSchedule": Effect.PREFER_NO_SCHEDULE,
    "NoExecute": Effect.NO_EXECUTE,
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PODS_WHY: Final = "pods are not placed by what runs beside them; use a topology level or a slice"


def node_selector(spec: Field, notes: Notes) -> Selector:
    """The selector of a pod spec.

    Raises:
        InvalidArgument: SELECTOR_INVALID, UNKNOWN_VALUE or NOT_SUPPORTED.
    """
    return patched_selector((spec,), notes)


def patched_selector(specs: Sequence[Field], notes: Notes) -> Selector:
    """The selector of a pod spec and of patches laid over it in order, as a strategic merge does: the last affinity
    replaces the others, a label of a later `nodeSelector` replaces the same label of an earlier one.

    Raises:
        InvalidArgument: SELECTOR_INVALID, UNKNOWN_VALUE or NOT_SUPPORTED.
    """
    affinities = [affinity for spec in specs if (affinity := spec.get("affinity"))]
    selector = _affinity(affinities[-1], notes) if affinities else Selector()
    wanted: dict[str, Requirement] = {}
    for spec in specs:
        labels = spec.get("nodeSelector")
        wanted |= {one.key: one for one in label_requirements(labels)} if labels else {}
    return selector.and_(tuple(wanted.values()))


def label_requirements(labels: Field) -> tuple[Requirement, ...]:
    """A mapping of labels to values as requirements, each with exactly this value."""
    return tuple(_checked(Requirement(key, Operator.IN, (value.text(),)), value) for key, value in labels.entries())


def expression(field: Field, operators: Mapping[str, Operator] = OPERATORS) -> Requirement:
    """One `{key, operator, values}`."""
    field.only(("key", "operator", "values"))
    operator = field.need("operator").one_of(*operators)
    values = field.get("values")
    texts = tuple(value.text() for value in values.items()) if values else ()
    return _checked(Requirement(field.need("key").word(), operators[operator], texts), field)


def tolerations(spec: Field, notes: Notes) -> tuple[Toleration, ...]:
    """The tolerations of a pod spec, except those that Hanse does not know, which are named."""
    listed = spec.get("tolerations")
    found = [_toleration(item, notes) for item in listed.items()] if listed else []
    return tuple(toleration for toleration in found if toleration is not None)


def _affinity(affinity: Field, notes: Notes) -> Selector:
    why = {"podAffinity": _PODS_WHY, "podAntiAffinity": _PODS_WHY}
    audit(affinity, notes, mapped=("nodeAffinity",), why=why)
    node = affinity.get("nodeAffinity")
    if node is None:
        return Selector()
    audit(node, notes, mapped=(_REQUIRED,), why={_PREFERRED: "places are not chosen by preferred labels"})
    required = node.get(_REQUIRED)
    if required is None:
        return Selector()
    required.only(("nodeSelectorTerms",))
    listed = required.need("nodeSelectorTerms")
    terms = [_term(term) for term in listed.items()]
    if not any(terms):
        listed.refuse("SELECTOR_INVALID", "no term has a condition, which selects no node at all; add one")
    return Selector(tuple(term for term in terms if term))


def _term(term: Field) -> tuple[Requirement, ...]:
    term.only(("matchExpressions", "matchFields"))
    by_field = term.get("matchFields")
    if by_field:
        by_field.refuse("NOT_SUPPORTED", "nodes are chosen by label, not by name; use matchExpressions")
    expressions = term.get("matchExpressions")
    return tuple(expression(item) for item in expressions.items()) if expressions else ()


def _toleration(item: Field, notes: Notes) -> Toleration | None:
    audit(
        item,
        notes,
        mapped=("key", "operator", "value", "effect"),
        why={"tolerationSeconds": "the taint is tolerated without a time limit"},
    )
    operator = item.get("operator")
    kind = operator.text() if operator else "Equal"
    if operator and kind in ("Gt", "Lt"):
        notes.unmapped(item, "taints are not compared as numbers; this one is not tolerated")
        return None
    if operator:
        operator.one_of("Equal", "Exists", "Gt", "Lt")
    key, value, effect = item.get("key"), item.get("value"), item.get("effect")
    return Toleration(
        key=key.text() if key else "",
        exists=kind == "Exists",
        value=value.text() if value else "",
        effect=EFFECTS[effect.one_of(*EFFECTS)] if effect and effect.shown else Effect.UNSPECIFIED,
    )


def _checked(requirement: Requirement, field: Field) -> Requirement:
    check_requirement(requirement, path=field.path, line=field.line)
    return requirement
