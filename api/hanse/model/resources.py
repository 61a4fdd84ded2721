"""Exact integer resources and the Kubernetes quantity grammar.

CPU is counted in millicores, memory and storage in bytes, everything else in whole units. All arithmetic is on
Python integers, so no amount is ever rounded into or out of existence (S9).
"""

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation, localcontext
from typing import Final, NoReturn

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

# A share of one accelerator, in thousandths: a device plugin that shares devices advertises 1000 for each of them. A
# pod's share is of one device, whatever is left on others. Devices that are cut (`nvidia.com/mig-1g.5gb`) or sliced
# in time (`nvidia.com/gpu.shared`) have names of their own and are counted like any other resource.
GPU_MILLI: Final = "hanse.dev/gpu-milli"
DEVICE_MILLI: Final = 1000

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


class Resources(dict[str, int]):
    """An immutable vector of named integer amounts; an absent name is zero. Ordered by name, hashable.

    A dict underneath, because placement reads amounts by the million: a present name costs one look-up in C.
    """

    __slots__ = ("_hash",)
    _hash: int

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        # a dict is asked for first: an abstract class takes longer to say than all the rest
        pairs = amounts.items() if isinstance(amounts, dict | Mapping) else amounts
        super().__init__([pair for pair in sorted(pairs) if pair[1] != 0])

    def __missing__(self, name: str) -> int:
        return 0

    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]
        """The amount; zero (not None) if the name is absent."""
        return dict.get(self, name, default)

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(tuple(self.items()))
            return self._hash

    def __repr__(self) -> str:
        return f"Resources({dict(self)!r})"

    def __reduce__(self) -> tuple[type["Resources"], tuple[dict[str, int]]]:
        return Resources, (dict(self),)

    def _frozen(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("Resources are immutable; make new ones")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _frozen

    def plus(self, other: "Resources") -> "Resources":
        """The sum, name by name."""
        return Resources({n: self[n] + other[n] for n in {**self, **other}})

    def minus(self, other: "Resources") -> "Resources":
        """The difference, name by name; may be negative."""
        return Resources({n: self[n] - other[n] for n in {**self, **other}})

    def times(self, count: int) -> "Resources":
        """`count` of these."""
        return Resources({n: value * count for n, value in self.items()})

    def joined(self, other: "Resources") -> "Resources":
        """The larger of both, name by name."""
        return Resources({n: max(self[n], other[n]) for n in {**self, **other}})

    @property
    def gpus(self) -> int:
        """Whole accelerators of any kind."""
        return sum(self[name] for name in GPU_RESOURCES)


EMPTY: Final = Resources()
