"""The federation at a glance: one line of verdict, what is degraded, the replicas, the holders, the pools."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, duration, number
from hanse.cli.paper import Paper, Tone, joined, wrapped
from hanse.cli.show.words import reason_words
from hanse.cli.table import Cell, Column, table

if TYPE_CHECKING:
    from hanse.api.v1.server_service_pb2 import FederationStatus, PoolStatus, ReplicaStatus, RootStatus

DEGRADED_SHOWN_MAX: Final = 12
POOLS_SHOWN_MAX: Final = 40
_TONES: Final = {"healthy": Tone.GOOD, "cordoned": Tone.WAITING, "draining": Tone.WAITING, "leaving": Tone.WAITING}
_REPLICA_COLUMNS: Final = (
    Column("replica"),
    Column("up", right=True),
    Column("agents", right=True),
    Column("roots", right=True),
    Column("waiting", right=True),
    Column("bound/s", right=True),
    Column("conflicts", right=True),
    Column("refused", right=True),
    Column(""),
)
_POOL_COLUMNS: Final = (
    Column("pool"),
    Column("state"),
    Column("agent at"),
    Column("summary", right=True),
    Column("gangs", right=True),
    Column("unanswered", right=True),
)


def status_page(found: "FederationStatus", paper: Paper) -> str:
    """The whole page."""
    lines = [_verdict(found, paper)]
    for line in found.degraded[:DEGRADED_SHOWN_MAX]:
        lines += _bullet(line, paper)
    if len(found.degraded) > DEGRADED_SHOWN_MAX:
        lines.append(f"  … {len(found.degraded) - DEGRADED_SHOWN_MAX:,} more")
    lines += ["", *table(_REPLICA_COLUMNS, [_replica(one) for one in found.replicas], paper)]
    lines += list(_since_start(found.replicas))
    if found.roots:
        lines += ["", f"roots  {_roots(found.roots)}"]
    if found.pools:
        shown = sorted(found.pools, key=lambda pool: (pool.state == "healthy", pool.name))[:POOLS_SHOWN_MAX]
        lines += ["", *table(_POOL_COLUMNS, [_pool(one) for one in shown], paper)]
        if len(found.pools) > len(shown):
            lines.append(f"… {len(found.pools) - len(shown):,} more, all of them healthy or as above")
    return joined(lines)


def _verdict(found: "FederationStatus", paper: Paper) -> str:
    server = found.server
    what = (
        f"federation {server.federation} · store {server.store} · {counted(len(found.replicas), 'replica')}"
        f" · {counted(len(found.pools), 'pool')}"
    )
    word, tone = ("degraded", Tone.BAD) if found.degraded else ("all is well", Tone.GOOD)
    return f"{what}  {paper.paint(word, tone)}"


def _bullet(line: str, paper: Paper) -> list[str]:
    told = wrapped(line, paper.width - 4) if paper.cut else [line]
    mark = paper.paint("✘", Tone.BAD)
    return [f"  {mark} {told[0]}", *[f"    {rest}" for rest in told[1:]]]


def _replica(one: "ReplicaStatus") -> Sequence[Cell]:
    if not one.answers:
        return one.id, "", "", "", "", "", "", "", ("silent", Tone.BAD)
    word: Cell = "" if one.ready else ("not ready", Tone.WAITING)
    return (
        one.id,
        duration(one.uptime_ms),
        number(one.agents),
        number(one.roots),
        number(one.pending_jobs),
        f"{one.bound_per_s:,.1f}",
        f"{one.conflict_fraction:.0%}",
        f"{one.refusal_fraction:.0%}",
        word,
    )


def _since_start(replicas: Sequence["ReplicaStatus"]) -> Iterator[str]:
    """What happened since the replicas started, of all of them; nothing if nothing did."""
    conflicts, refusals = Counter[str](), Counter[str]()
    for one in replicas:
        conflicts.update(one.conflicts)
        refusals.update(one.refusals)
    taken, fenced = sum(one.takeovers for one in replicas), sum(one.fenced for one in replicas)
    if conflicts:
        yield f"conflicts since the start: {_counts(conflicts)}"
    if refusals:
        told = Counter({reason_words(reason): count for reason, count in refusals.items()})
        yield f"refusals since the start: {_counts(told)}"
    yield f"{counted(taken, 'root')} taken over, {counted(fenced, 'stream')} of older epochs ended"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number(count)} {what}" for what, count in sorted(counts.items(), key=lambda e: (-e[1], e[0])))


def _roots(roots: Sequence["RootStatus"]) -> str:
    held = Counter(one.replica if one.alive else "nobody" for one in roots)
    return ", ".join(f"{number(count)} by {who}" for who, count in sorted(held.items()))


def _pool(one: "PoolStatus") -> Sequence[Cell]:
    tone = _TONES.get(one.state, Tone.BAD)
    age = duration(one.summary_age_ms) if one.summary_age_ms >= 0 else "none"
    return (
        one.name,
        (one.state, tone),
        one.replica or ("nowhere", Tone.BAD),
        age,
        number(one.gangs),
        number(one.unacknowledged),
    )
