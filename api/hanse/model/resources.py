"""Exact integer resources and the Kubernetes quantity grammar.

CPU is counted in millicores, memory and storage in bytes, everything else in whole units. All arithmetic is on
Python integers, so no amount is ever rounded into or out of existence (S9).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation, localcontext
from typing import Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
NVIDIA_GPU: Final = "nvidia.com/gpu"

# Resource names that count as accelerators: a shape counts hosts by these, quota distinguishes them by flavor.
GPU_RESOURCES: Final = (
    NVIDIA_GPU,
    "amd.com/gpu",
    "google.com/tpu",
    "habana.ai/gaudi",
    "gpu.intel.com/i915",
    "aws.amazon.com/neuron",
)

AMOUNT_MAX: Final = 2**62  # any single amount; keeps sums over a million nodes inside 64 bits times a margin

_SUFFIXES: Final[Mapping[str, Decimal]] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))((?:[eE][+-]?[0-9]{1,3})|[numkMGTPE]i?|Ki|)"
)


def parse_quantity(text: str | int | float, *, scale: int = 1) -> int:
    """A Kubernetes quantity as an integer number of 1/`scale` units, rounded up as Kubernetes does.

    `parse_quantity("1500m", scale=1000) == 1500`; `parse_quantity("64Gi") == 68719476736`.

    Raises:
        ValueError: not a quantity, or its size is over AMOUNT_MAX.
    """
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a quantity")
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{str(text)[:40]!r} is not a quantity like 8, 500m or 64Gi")
    number, suffix = match.groups()
    with localcontext() as ctx:
        ctx.prec = 120
        try:
            factor = _SUFFIXES[suffix] if suffix in _SUFFIXES else Decimal(f"1{suffix}")
        except (InvalidOperation, KeyError):
            raise ValueError(f"{str(text)[:40]!r} has an unknown suffix {suffix!r}") from None
        value = Decimal(number) * factor * scale
        if abs(value) > AMOUNT_MAX:
            raise ValueError(f"{str(text)[:40]!r} is over the limit of {AMOUNT_MAX}")
        return int(value.to_integral_value(rounding=ROUND_CEILING))


def parse_amount(name: str, text: str | int | float) -> int:
    """The amount of resource `name`: millicores for cpu, units (bytes for memory and storage) for the rest."""
    return parse_quantity(text, scale=1000 if name == CPU else 1)


class Resources(Mapping[str, int]):
    """An immutable vector of named integer amounts; an absent name is zero. Ordered by name, hashable."""

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        pairs = amounts.items() if isinstance(amounts, Mapping) else amounts
        self._amounts: dict[str, int] = {name: value for name, value in sorted(pairs) if value != 0}

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __hash__(self) -> int:
        return hash(tuple(self._amounts.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self._amounts == other._amounts

    def __repr__(self) -> str:
        return f"Resources({self._amounts!r})"

    def plus(self, other: "Resources") -> "Resources":
        """The sum, name by name."""
        return Resources({n: self[n] + other[n] for n in {**self._amounts, **other._amounts}})

    def minus(self, other: "Resources") -> "Resources":
        """The difference, name by name; may be negative."""
        return Resources({n: self[n] - other[n] for n in {**self._amounts, **other._amounts}})

    def times(self, count: int) -> "Resources":
        """`count` of these."""
        return Resources({n: value * count for n, value in self._amounts.items()})

    def joined(self, other: "Resources") -> "Resources":
        """The larger of both, name by name."""
        return Resources({n: max(self[n], other[n]) for n in {**self._amounts, **other._amounts}})

    @property
    def gpus(self) -> int:
        """Whole accelerators of any kind."""
        return sum(self[name] for name in GPU_RESOURCES)


EMPTY: Final = Resources()
