"""All pods of a gang on nodes with one value of a label: one network segment, one driver version, one switch.

A shape knows the values that its host classes carry, as hashes. The gang is then looked at once for each value, as if
only the hosts with that value were there, and the best place is taken. Where the label is left out of the classes, a
shape can say only what all hosts with the label hold together: MAYBE above, decided below by the values on the nodes.

A label that several sets of the gang name has one value for all of them; a set that does not name it goes anywhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Final

from hanse.model.reasons import Reason
from hanse.shape.ask import Ask, SetAsk, with_pins
from hanse.shape.classes import label_hash
from hanse.shape.lens import Table
from hanse.shape.refuse import NoFit

OPTIONS_MAX: Final = 1_024  # combinations of values that are looked at, if several labels are named

Values = Mapping[str, int]  # label key → hash of its value


def same_keys(ask: Ask) -> tuple[str, ...]:
    """The labels that must have one value, in the order in which the sets name them."""
    return tuple(dict.fromkeys(key for s in ask.sets for key in s.same))


def known_values(table: Table, s: SetAsk) -> list[Values] | None:
    """The values of the set's labels on the host classes of its flavor; None if a class does not tell one of them."""
    out: dict[tuple[int, ...], Values] = {}
    for cls in table.classes:
        if cls.flavor != s.flavor:
            continue
        labels = dict(cls.labels)
        if any(table.hides(label_hash(key), labels) for key in s.same):
            return None
        found = {key: labels[label_hash(key)] for key in s.same if label_hash(key) in labels}
        if len(found) == len(s.same):
            out[tuple(found.values())] = found
    return [out[key] for key in sorted(out)]


def options(ask: Ask, values: Callable[[SetAsk], Sequence[Values] | None]) -> list[Ask] | None:
    """The gang once for each choice of values that every set could take; None if some set's values are not known.

    Args:
        values: for a set that names labels, the combinations of their values that there are.
    """
    by_set = [values(s) if s.same else [] for s in ask.sets]
    if any(found is None for found in by_set):
        return None
    named = [found for s, found in zip(ask.sets, by_set, strict=True) if s.same and found is not None]
    chosen = islice(_agreeing(named), OPTIONS_MAX)
    return [_pinned(ask, dict(pins)) for pins in dict.fromkeys(tuple(sorted(one.items())) for one in chosen)]


def no_one_value(ask: Ask, most: int) -> NoFit:
    """The refusal of a gang for which no value of its labels has room.

    Args:
        most: pods that the best value of the set that names labels first could hold.
    """
    s = next(s for s in ask.sets if s.same)
    what = f"pods on nodes with one {' and one '.join(same_keys(ask))}"
    detail = f"found at most {most:,} {what}; wanted {s.count:,}"
    return NoFit(Reason.SHAPE, what, s.count, most, detail, 0.3 + 0.6 * min(1.0, most / s.count))


def _agreeing(named: Iterable[Sequence[Values]]) -> Iterator[dict[str, int]]:
    """Choices of one combination for each set that give every label one value."""
    for combination in product(*named):
        merged: dict[str, int] = {}
        if all(merged.setdefault(key, value) == value for one in combination for key, value in one.items()):
            yield merged


def _pinned(ask: Ask, values: Values) -> Ask:
    sets = tuple(with_pins(s, tuple((key, values[key]) for key in s.same)) if s.same else s for s in ask.sets)
    return replace(ask, sets=sets, softer=())
