"""Values as Hanse's own files write them: durations, amounts, conditions on nodes, words and variables.

Shared by the native job and the operator's files. Friendlier than Kubernetes where there is only one meaning: a
duration may be `12h`, a selector a plain mapping, a variable a number.
"""

import re
from typing import Final

from hanse.manifests.fields import Field
from hanse.manifests.node_choice import EFFECTS, OWN_OPERATORS, expression, label_requirements
from hanse.manifests.tree import Row, Scalar, Table
from hanse.model.job import EnvVar
from hanse.model.names import quoted
from hanse.model.selectors import Effect, Requirement, Selector, Toleration

GROUP: Final = "hanse"
VERSIONS: Final = ("v1",)

_DURATION: Final = re.compile(r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,10})s)?")
_UNIT_S: Final = (86_400, 3_600, 60, 1)


def duration_s(field: Field) -> int:
    """Seconds: a whole number of them, or a text such as `90s`, `12h` or `1d6h30m`.

    Raises:
        InvalidArgument: reason DURATION.
    """
    if not isinstance(field.node, Scalar) or not isinstance(field.node.value, str):
        return field.integer()
    text = field.text().strip()
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        field.refuse("DURATION", f"{quoted(text)} is not a duration; write seconds, or 90s, 12h, 1d6h30m")
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), _UNIT_S, strict=True))


def selector_of(field: Field | None) -> Selector:
    """A mapping, a list of conditions, or a list of such (any of which is enough)."""
    if field is None:
        return Selector()
    if not isinstance(field.node, Row) or not field.node.items:
        return Selector().and_(requirements(field))
    alternatives = list(field.items())
    if all(isinstance(item.node, Row) for item in alternatives):
        return Selector(tuple(requirements(item) for item in alternatives))
    return Selector().and_(requirements(field))


def requirements(field: Field) -> tuple[Requirement, ...]:
    """Conditions on node labels, all of which must hold: `{key: value}` or `[{key, operator, values}]`."""
    if isinstance(field.node, Table):
        return label_requirements(field)
    return tuple(expression(item, OWN_OPERATORS) for item in field.items())


def tolerations_of(field: Field | None) -> tuple[Toleration, ...]:
    """A list of `{key, operator, value, effect}`, as Kubernetes writes them."""
    return tuple(_toleration(item) for item in field.items()) if field else ()


def _toleration(field: Field) -> Toleration:
    field.only(("key", "operator", "value", "effect"))
    key, operator = field.get("key"), field.get("operator")
    value, effect = field.get("value"), field.get("effect")
    return Toleration(
        key=key.text() if key else "",
        exists=operator is not None and operator.one_of("Equal", "Exists") == "Exists",
        value=value.text() if value else "",
        effect=EFFECTS[effect.one_of(*EFFECTS)] if effect else Effect.UNSPECIFIED,
    )


def words_of(field: Field | None) -> tuple[str, ...]:
    """The words of a command; a number is a word as it was written."""
    if field is None:
        return ()
    if not isinstance(field.node, Row):
        field.refuse("TYPE", 'a list of words is wanted, such as ["python", "train.py"]')
    return tuple(_loose_text(item) for item in field.items())


def env_of(field: Field) -> tuple[EnvVar, ...]:
    """Variables as a mapping, or as a list of `{name, value}`; no value is an empty one."""
    if isinstance(field.node, Table):
        values = dict(field.entries())
        return tuple(EnvVar(name, _loose_text(values[name]) if name in values else "") for name in field.node.entries)
    found = []
    for item in field.items():
        item.only(("name", "value"), reserved=("valueFrom",))
        value = item.get("value")
        found.append(EnvVar(item.need("name").word(), _loose_text(value) if value else ""))
    return tuple(found)


def _loose_text(field: Field) -> str:
    """A text, or a number as it was written: `WORKERS: 8` has only one meaning."""
    if isinstance(field.node, Scalar) and isinstance(field.node.value, int | float):
        if isinstance(field.node.value, bool):
            return field.text()
        return field.node.text
    return field.text()
