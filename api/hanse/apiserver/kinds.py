"""The kinds of objects that operators keep: how each is parsed, stored and shown, in one table. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from hanse.api.v1 import config_pb2
from hanse.model.queue import FLAVORS_MAX, Cohort, Flavor, PriorityClass
from hanse.store import keys
from hanse.store.schema import CohortValue, FlavorValue, PriorityValue, encode
from hanse.wire.config import (
    cohort_from_wire,
    cohort_to_wire,
    flavor_from_wire,
    flavor_to_wire,
    priority_class_from_wire,
    priority_class_to_wire,
)

M = TypeVar("M", bound=Message)
V = TypeVar("V")

COHORTS_MAX: Final = 1_000
PRIORITY_CLASSES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Kind(Generic[M, V]):
    """One kind.

    Attributes:
        word: its name in paths and messages (`priority_class`).
        plain: its name in sentences (`priority class`).
        objects_max: how many there may be.
        message: class of the resource.
        parse: message and path → value; raises InvalidArgument.
        show: value and revision → message.
        store: value → bytes.
    """

    word: str
    plain: str
    prefix: str
    objects_max: int
    message: type[M]
    parse: Callable[[M, str], V]
    show: Callable[[V, int], M]
    store: Callable[[V], bytes]

    def key(self, name: str) -> str:
        return f"{self.prefix}{name}"

    @property
    def reason(self) -> str:
        """Head of this kind's reason codes (`PRIORITY_CLASS`)."""
        return self.word.upper()


def _store_priority(value: PriorityClass) -> bytes:
    return encode(PriorityValue(value.value, value.default, value.description))


FLAVOR: Final[Kind[config_pb2.Flavor, Flavor]] = Kind(
    word="flavor",
    plain="flavor",
    prefix=keys.FLAVORS,
    objects_max=FLAVORS_MAX,
    message=config_pb2.Flavor,
    parse=lambda message, path: flavor_from_wire(message, path=path),
    show=lambda value, revision: flavor_to_wire(value, revision=revision),
    store=lambda value: encode(FlavorValue.of(value)),
)
PRIORITY_CLASS: Final[Kind[config_pb2.PriorityClass, PriorityClass]] = Kind(
    word="priority_class",
    plain="priority class",
    prefix=keys.PRIORITIES,
    objects_max=PRIORITY_CLASSES_MAX,
    message=config_pb2.PriorityClass,
    parse=lambda message, path: priority_class_from_wire(message, path=path),
    show=lambda value, revision: priority_class_to_wire(value, revision=revision),
    store=_store_priority,
)
COHORT: Final[Kind[config_pb2.Cohort, Cohort]] = Kind(
    word="cohort",
    plain="cohort",
    prefix=keys.COHORTS,
    objects_max=COHORTS_MAX,
    message=config_pb2.Cohort,
    parse=lambda message, path: cohort_from_wire(message, path=path),
    show=lambda value, revision: cohort_to_wire(value, revision=revision),
    store=lambda value: encode(CohortValue.of(value)),
)
