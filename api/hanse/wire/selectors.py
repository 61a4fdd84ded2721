"""Selectors, requirements and tolerations on the wire."""

from collections.abc import Iterable

from hanse.api.v1 import selector_pb2 as pb
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration
from hanse.wire.enums import enum_from_wire


def requirement_to_wire(requirement: Requirement) -> pb.Requirement:
    return pb.Requirement(
        key=requirement.key,
        operator=pb.Operator.ValueType(requirement.operator),
        values=requirement.values,
    )


def requirement_from_wire(message: pb.Requirement, path: str) -> Requirement:
    """Raises InvalidArgument for an operator that is not known."""
    operator = enum_from_wire(Operator, message.operator, f"{path}.operator")
    return Requirement(message.key, operator, tuple(message.values))


def requirements_from_wire(messages: Iterable[pb.Requirement], path: str) -> tuple[Requirement, ...]:
    return tuple(requirement_from_wire(m, f"{path}[{i}]") for i, m in enumerate(messages))


def selector_to_wire(selector: Selector) -> pb.Selector:
    return pb.Selector(
        terms=[pb.SelectorTerm(requirements=[requirement_to_wire(r) for r in term]) for term in selector.terms]
    )


def selector_from_wire(message: pb.Selector, path: str) -> Selector:
    """Raises InvalidArgument with the path of the requirement that is wrong."""
    return Selector(
        tuple(requirements_from_wire(term.requirements, f"{path}.terms[{i}]") for i, term in enumerate(message.terms))
    )


def toleration_to_wire(toleration: Toleration) -> pb.Toleration:
    return pb.Toleration(
        key=toleration.key,
        exists=toleration.exists,
        value=toleration.value,
        effect=pb.TaintEffect.ValueType(toleration.effect),
    )


def toleration_from_wire(message: pb.Toleration, path: str) -> Toleration:
    """Raises InvalidArgument for an effect that is not known."""
    effect = enum_from_wire(Effect, message.effect, f"{path}.effect")
    return Toleration(message.key, message.exists, message.value, effect)
