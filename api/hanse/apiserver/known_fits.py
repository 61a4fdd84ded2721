"""What is known of gangs that ask for more, or for less. Pure.

A gang that asks for no more than one that fits, pod set by pod set, fits too; one that asks for no less than one that
does not fit, does not. So a request is first asked for in round numbers, upwards: jobs differ in a few megabytes of
memory or a few pods, and one answer then stands for all that are below it. Only where the round numbers do not fit
does a request need an answer of its own.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import gt
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources

TERMS_KEPT_MAX: Final = 1_000
ANSWERS_KEPT_MAX: Final = 8
"""Of gangs with the same terms, those that fit and those that do not."""

Terms = tuple[object, ...]
"""What two gangs must have in common to be compared: everything but amounts."""

Amounts = tuple[int, ...]


@dataclass(slots=True)
class _Answers:
    fit: list[Amounts] = field(default_factory=list)
    miss: list[Amounts] = field(default_factory=list)


class KnownFits:
    """Answers by terms, newest last."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Terms, _Answers] = OrderedDict()

    def fits(self, terms: Terms, amounts: Amounts) -> bool:
        """Whether a gang with these amounts is known to fit."""
        known = self._answers.get(terms)
        return known is not None and any(_within(amounts, bound) for bound in reversed(known.fit))

    def misses(self, terms: Terms, amounts: Amounts) -> bool:
        """Whether a gang with these amounts is known not to fit."""
        known = self._answers.get(terms)
        return known is not None and any(_within(bound, amounts) for bound in reversed(known.miss))

    def learn(self, terms: Terms, amounts: Amounts, *, fits: bool) -> None:
        """A gang with these amounts fits, or does not."""
        known = self._answers.setdefault(terms, _Answers())
        answers = known.fit if fits else known.miss
        answers.append(amounts)
        del answers[:-ANSWERS_KEPT_MAX]
        if len(self._answers) > TERMS_KEPT_MAX:
            self._answers.popitem(last=False)

    def forget(self) -> None:
        """Nothing is known any more."""
        self._answers.clear()


def terms_of(request: GangRequest, accepted: Sequence[tuple[FlavorName, ...]]) -> Terms | None:
    """See `Terms`; None for a gang with a set that may shrink, which is not compared.

    Args:
        accepted: flavors that each set may get.
    """
    if any(s.min_count != s.count for s in request.sets):
        return None
    return tuple(
        (flavors, tuple(s.resources), s.selector, s.tolerations, s.topology)
        for s, flavors in zip(request.sets, accepted, strict=True)
    )


def amounts_of(request: GangRequest) -> Amounts:
    """Pods of each set, and what one of them asks for."""
    return tuple(n for s in request.sets for n in (s.count, *s.resources.values()))


def rounded_up(request: GangRequest) -> GangRequest:
    """The gang with every amount raised to a power of two; counts stay multiples of the slices they are cut in."""
    return replace(request, sets=tuple(_set_up(s) for s in request.sets))


def _set_up(one: SetRequest) -> SetRequest:
    unit = one.topology.slices[0].size if one.topology.slices else 1
    count = unit * _up(-(-one.count // unit))
    return replace(one, count=count, min_count=count, resources=Resources(_all_up(one.resources.items())))


def _all_up(amounts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(name, _up(amount)) for name, amount in amounts]


def _up(number: int) -> int:
    return 1 << (number - 1).bit_length() if number > 0 else number


def _within(amounts: Amounts, bound: Amounts) -> bool:
    return not any(map(gt, amounts, bound))
