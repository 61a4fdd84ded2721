"""Why a job waits, or why it went where it went.

The first line is the answer. Then the nearest miss with what is in its way, what would help (the smallest change
first), and every pool on a line of its own, the nearest first, with a bar of how much of what was wanted is there.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import duration, number
from hanse.cli.bars import bar
from hanse.cli.paper import Paper, Tone, columns_of, cut_to, joined, wrapped
from hanse.cli.show.facts import facts
from hanse.cli.show.jobs import placed_in
from hanse.cli.show.words import reason_words, state_of, state_word
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason

if TYPE_CHECKING:
    from hanse.api.v1.explanation_pb2 import Explanation, Help, PoolExplanation
    from hanse.api.v1.job_pb2 import Job

BAR_CELLS: Final = 8
POOLS_SHOWN_MAX: Final = 24
POOL_COLUMNS_MAX: Final = 16
REASON_COLUMNS_MAX: Final = 9
BARS_FROM_COLUMNS: Final = 72
_SHORT: Final = {Reason.LEVEL_UNKNOWN.name: "level", Reason.BLOCKED_BY_OLDER.name: "blocked"}
NODES_SHOWN_MAX: Final = 6
CHOSEN: Final = "chosen"
FITS: Final = "fits"


def explanation_page(found: "Explanation", places: Mapping[str, str], paper: Paper, now_ms: int) -> str:
    """The whole page; `places` as from `places_of`."""
    answer = wrapped(_answer(found), paper.width) if paper.cut else [_answer(found)]
    lines = [paper.paint(line, Tone.STRONG) for line in answer]
    when = _when(found, now_ms)
    if when:
        lines.append(f"  {when}")
    about = list(_about(found))
    if about:
        lines += ["", *facts(about, paper)]
    return joined([*lines, "", *pool_lines(found.pools, paper, places=places)])


def _answer(found: "Explanation") -> str:
    answer = found.answer or reason_words(found.reason) or "there is nothing to explain"
    if answer.startswith(found.name):
        return answer
    verb = "waits" if state_of(found.state) is State.PENDING else f"is {state_word(found.state)}"
    return f"{found.name} {verb}: {answer}"


def _when(found: "Explanation", now_ms: int) -> str:
    parts = []
    if found.since_ms:
        parts.append(f"for {duration(now_ms - found.since_ms)}")
    if found.position:
        parts.append(f"{_ordinal(found.position)} in queue {found.queue}")
    elif found.queue:
        parts.append(f"queue {found.queue}")
    return ", ".join(parts)


def _ordinal(position: int) -> str:
    return "first" if position == 1 else f"number {position:,}"


def _about(found: "Explanation") -> Iterator[tuple[str, str]]:
    if state_of(found.state) is State.PENDING and found.pools and not found.pools[0].fits:
        nearest = found.pools[0]
        yield "nearest", f"{nearest.pool}: {_words(nearest)}"
        for line in nearest.nodes[:NODES_SHOWN_MAX]:
            yield "", line
        if len(nearest.nodes) > NODES_SHOWN_MAX:
            yield "", f"… {len(nearest.nodes) - NODES_SHOWN_MAX} more"
    for help_ in found.helps:
        yield "would help", help_words(help_)


def help_words(one: "Help") -> str:
    """`15 racks instead of 16 → starts now in b3`."""
    return f"{one.change} → {one.effect}" if one.effect else one.change


def places_of(job: "Job") -> dict[str, str]:
    """By pool, where in it the job is: `512 pods in 1 block, 512 hosts`."""
    return {part.pool: placed_in(part) for part in job.status.placement}


def pool_lines(
    pools: "Sequence[PoolExplanation]",
    paper: Paper,
    *,
    places: Mapping[str, str],
    most: int = POOLS_SHOWN_MAX,
) -> list[str]:
    """A line for each pool; those beyond `most` are counted by reason.

    Args:
        places: by pool, where in it the job is.
    """
    if not pools:
        return ["  no pool has joined yet"]
    shown = pools[:most]
    names = (
        min(POOL_COLUMNS_MAX, max(columns_of(one.pool) for one in shown))
        if paper.cut
        else max(columns_of(one.pool) for one in shown)
    )
    reasons = min(REASON_COLUMNS_MAX, max(columns_of(_reason(one)) for one in shown))
    lines = [line for one in shown for line in _pool(one, names, reasons, paper, places.get(one.pool, ""))]
    rest = Counter(_reason(one) for one in pools[most:])
    if rest:
        why = ", ".join(f"{count:,} {reason}" for reason, count in rest.most_common())
        lines.append(f"  … {len(pools) - most:,} pools more: {why}")
    return lines


def _reason(one: "PoolExplanation") -> str:
    if one.chosen:
        return CHOSEN
    return FITS if one.fits else _SHORT.get(one.reason, reason_words(one.reason))


def _pool(one: "PoolExplanation", names: int, reasons: int, paper: Paper, place: str) -> Iterator[str]:
    symbol, tone = ("✔", Tone.GOOD) if one.chosen else ("•", Tone.PLAIN) if one.fits else ("✘", Tone.BAD)
    name, reason = cut_to(one.pool, names), cut_to(_reason(one), reasons)
    head = (
        f"  {paper.paint(symbol, tone)} {name}{' ' * (names - columns_of(name))}"
        f"  {reason}{' ' * (reasons - columns_of(reason))}  "
    )
    if paper.width >= BARS_FROM_COLUMNS:
        head += f"{paper.paint(_bar(one), tone)}  "
    left = paper.width - columns_of(head)
    for words in _said(one, place):
        for line in wrapped(words, left) if paper.cut else [words]:
            yield head + line
            head = " " * columns_of(head)


def _said(one: "PoolExplanation", place: str) -> list[str]:
    """Of a chosen pool: where in it the job is, why it was this one, and what its agent says of the place."""
    if not (one.chosen and place):
        return [_words(one)]
    return [place, *([one.detail] if one.terms else []), *one.nodes]


def _bar(one: "PoolExplanation") -> str:
    if one.chosen or one.fits:
        return bar(1, 1, BAR_CELLS)
    return bar(one.found, one.wanted, BAR_CELLS) if one.wanted else " " * BAR_CELLS


def _words(one: "PoolExplanation") -> str:
    if one.detail:
        return one.detail
    if one.wanted:
        return f"{number(one.found)} of {number(one.wanted)} {one.unit}".rstrip()
    return one.constraint
