"""The free capacity that a planner sees in one pool: the agent's summary with everything newer applied.

Capacity = the summary's shape with every binding applied whose key was created after the summary's
`observed_revision`, in order of creation. That is exact whatever order messages arrive in: nothing is counted twice
(a binding that the agent has placed is in its shape and at or below the observed revision) and nothing is forgotten
(everything else is applied here). Freed capacity shows once the agent says so.

A binding that no longer fits the shape is not applied: its agent, which works through bindings in the same order,
is about to refuse it.

Bindings are only appended in the common case, so the shape is kept and extended; a new summary starts it over.

It is worked out when somebody asks for it: a replica hears of every binding in every pool, and plans into its own
share of the pools, so most of what others bind is confirmed by a summary before anybody here had to know where it
went. Until then the shape without the newest bindings is a bound: it holds whatever the exact one holds.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.request import GangRequest
from hanse.scheduler.core.facts import BindingFacts, SummaryFacts, SummaryOrder
from hanse.shape import Ask, Fit, NoFit, Shape, apply, fit, fit_ask
from hanse.shape.lens import Table

TAKES_REMEMBERED_MAX: Final = 128
"""Takes of one pool that are remembered: more than are under way between two summaries."""

ANSWERS_REMEMBERED_MAX: Final = 128
"""Answers of one shape that are remembered."""

_Place = tuple[int, int, str, int, str]


class Takes:
    """What a pool's shape says to a request, and what taking it leaves, for those of late: a memory that changes no
    answer.

    A cycle works out the shape that its decisions leave, and the ledger needs it again when they are committed, and
    once more when the next summary confirms the first of them. Most pools that a job asks have not changed since
    another job asked the same.
    """

    def __init__(self) -> None:
        self._after: OrderedDict[tuple[object, ...], Shape] = OrderedDict()
        self._asked: Shape | None = None
        self._answers: dict[Ask, Fit | NoFit] = {}

    def fit(self, shape: Shape, ask: Ask) -> Fit | NoFit:
        """`fit_ask`, remembered for the newest shape that was asked."""
        if shape is not self._asked:
            known = self._asked
            if known is None or known.table is not shape.table or known.key != shape.key:
                self._answers.clear()
            self._asked = shape
        found = self._answers.get(ask)
        if found is None:
            if len(self._answers) >= ANSWERS_REMEMBERED_MAX:
                self._answers.clear()
            found = self._answers[ask] = fit_ask(shape, ask)
        return found

    def get(self, shape: Shape, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Shape | None:
        """The shape afterwards, if it is known."""
        found = self._after.get((shape.key, request, flavors))
        return found if found is not None and found.table is shape.table else None

    def put(self, shape: Shape, request: GangRequest, flavors: tuple[FlavorName, ...], after: Shape) -> None:
        """Remember."""
        self._after[shape.key, request, flavors] = after
        if len(self._after) > TAKES_REMEMBERED_MAX:
            self._after.popitem(last=False)


class Planned:
    """The planning shape of a pool at one moment, worked out when it is first asked for; it never changes.

    Attributes:
        bound: a shape that was known at that moment and holds whatever the planning shape holds.
    """

    __slots__ = ("_left", "_shape", "_takes", "bound")

    def __init__(self, bound: Shape, left: Sequence[BindingFacts], takes: Takes) -> None:
        self.bound = self._shape = bound
        self._left = list(reversed(left))
        self._takes = takes

    @property
    def known(self) -> Shape:
        """The nearest shape that is known by now."""
        return self._shape

    @property
    def is_known(self) -> bool:
        """Whether the planning shape has been worked out."""
        return not self._left

    def shape(self) -> Shape:
        """The planning shape."""
        while self._left:
            self._shape = taken(self._shape, self._left.pop(), self._takes)
        return self._shape

    def remembered(self) -> Shape | None:
        """The planning shape if it can be told from what is remembered of takes, else None."""
        while self._left:
            newest = self._left[-1]
            known = self._takes.get(self._shape, newest.request, newest.flavors)
            if known is None:
                return None
            self._shape = known
            self._left.pop()
        return self._shape

    def and_then(self, newer: Sequence[BindingFacts]) -> "Planned":
        """With further bindings, from what is known by now."""
        return Planned(self._shape, [*reversed(self._left), *newer], self._takes)


class PoolLedger:
    """One pool's planning shape, kept up to date by deltas.

    Attributes:
        summary: the newest one; None before the first.
        grown: stamp of the last time when capacity may have grown, so that only then a blocked request looks again.
            A summary that says just what was expected (the usual one: it confirms decisions) is no growth; one of a
            pool in which nobody here has looked lately counts as growth.

    Args:
        growth: gives the next stamp; one counter for all pools, so that stamps compare between pools.
    """

    def __init__(self, growth: Callable[[], int]) -> None:
        self.summary: SummaryFacts | None = None
        self.grown = 0
        self.takes = Takes()
        self._growth = growth
        self._bindings: dict[str, BindingFacts] = {}
        self._order: list[str] = []  # keys by the place of their binding
        self._empty: tuple[SummaryOrder, Shape] | None = None
        self._planned: Planned | None = None
        self._planned_for = 0  # bindings that are newer than the summary, of which `_planned` knows

    def accept(self, summary: SummaryFacts) -> bool:
        """Take a summary if it is newer than the present one; whether it was."""
        if self.summary is not None and summary.order <= self.summary.order:
            return False
        if summary.empty_shape is not None:
            self._empty = (summary.order, summary.empty_shape)
        elif self._empty is not None:
            summary = replace(summary, empty_shape=self._empty[1])
        expected = self.planned()
        if expected is not None and _same_table(expected.bound.table, summary.shape.table):
            # Equal tables become one: what the table has learned about requests stays learned.
            summary = replace(summary, shape=replace(summary.shape, table=expected.bound.table))
        self.summary = summary
        self._planned = None
        if expected is None or not expected.is_known or not self._is_planned(expected.shape()):
            self._grow()
        return True

    def _is_planned(self, expected: Shape) -> bool:
        """Whether the planning shape is known to be this one; where that would have to be worked out, it is not."""
        now = self.planned()
        found = now.remembered() if now is not None else None
        return found is not None and found.table is expected.table and found.key == expected.key

    def _grow(self) -> None:
        self.grown = self._growth()

    def look_again(self) -> None:
        """Something else than a summary made the pool usable."""
        self._grow()

    def accept_empty(self, order: SummaryOrder, shape: Shape) -> bool:
        """Take the shape of the empty pool, which came without the free one, if it is newer; whether it was."""
        if self._empty is not None and order <= self._empty[0]:
            return False
        self._empty = (order, shape)
        if self.summary is not None:
            self.summary = replace(self.summary, empty_shape=shape)
        return True

    def forget_summary(self) -> None:
        """The pool is unknown again: it was removed, or its summary is of another life of the store."""
        self.summary = None
        self._empty = None
        self._planned = None

    def put(self, key: str, binding: BindingFacts) -> None:
        """A binding exists. A key that is known changes nothing: what it takes was fixed when it was created."""
        if key in self._bindings:
            return
        self._bindings[key] = binding
        if not self._order or self._place(self._order[-1]) < self._place(key):
            self._order.append(key)
            return
        insort(self._order, key, key=self._place)
        if self._is_newer(binding):
            self._planned = None

    def put_many(self, bindings: Mapping[str, BindingFacts]) -> None:
        """Many bindings exist, of which none is known."""
        self._bindings.update(bindings)
        self._order.extend(bindings)
        self._order.sort(key=self._place)
        self._planned = None

    def remove(self, key: str) -> BindingFacts | None:
        """A binding is gone; what it was, or None if it was not known."""
        binding = self._bindings.get(key)
        if binding is None:
            return None
        self._order.pop(bisect_left(self._order, self._place(key), key=self._place))
        del self._bindings[key]
        if self._is_newer(binding):
            self._planned = None
            self._grow()
        return binding

    def __contains__(self, key: str) -> bool:
        return key in self._bindings

    def _is_newer(self, binding: BindingFacts) -> bool:
        return self.summary is not None and binding.create_revision > self.summary.observed_revision

    def _first_newer(self) -> int:
        """Index of the first binding that the summary does not hold yet."""
        return self._first_after(self.summary.observed_revision if self.summary is not None else 0)

    def _first_after(self, revision: int) -> int:
        return bisect_right(self._order, revision, key=self._revision)

    def _revision(self, key: str) -> int:
        return self._bindings[key].create_revision

    def _place(self, key: str) -> _Place:
        """Where a binding stands in the order in which the agent places: by creation, then as planned."""
        binding = self._bindings[key]
        return binding.create_revision, binding.order, binding.job, binding.part, key

    def created_until(self, revision: int) -> list[str]:
        """Keys of the live bindings that were created at this revision or before it, in the order of their making."""
        return self._order[: self._first_after(revision)]

    def bindings(self) -> list[BindingFacts]:
        """The live bindings of the pool, in the order of their making."""
        return [self._bindings[key] for key in self._order]

    def gangs(self) -> int:
        """Live bindings of the pool."""
        return len(self._order)

    def unacknowledged(self) -> int:
        """Bindings that the agent has neither placed nor refused, as far as its last summary tells."""
        return len(self._order) - self._first_newer()

    def planned(self) -> Planned | None:
        """The planning shape as of now, to be worked out when it is needed; None before the first summary."""
        if self.summary is None:
            return None
        first = self._first_newer()
        if self._planned is None:
            self._planned, self._planned_for = Planned(self.summary.shape, (), self.takes), 0
        newer = [self._bindings[key] for key in self._order[first + self._planned_for :]]
        if newer or self._planned.bound is not self._planned.known:
            self._planned = self._planned.and_then(newer)
        self._planned_for = len(self._order) - first
        return self._planned

    def shape(self) -> Shape | None:
        """The planning shape; None before the first summary."""
        planned = self.planned()
        return planned.shape() if planned is not None else None


def _same_table(one: Table, other: Table) -> bool:
    return (one.classes, one.left_out, one.open_ended) == (other.classes, other.left_out, other.open_ended)


def taken(shape: Shape, binding: BindingFacts, takes: Takes) -> Shape:
    """The shape after the binding takes its places; unchanged if it does not fit (its agent will refuse it)."""
    known = takes.get(shape, binding.request, binding.flavors)
    if known is not None:
        return known
    outcome = fit(shape, binding.request, binding.flavors)
    after = apply(shape, outcome.decision) if isinstance(outcome, Fit) else shape
    takes.put(shape, binding.request, binding.flavors, after)
    return after
