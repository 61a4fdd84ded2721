"""What a doctor found: a line for each thing, what to do about it, and where to read on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hanse.cli.amounts import counted
from hanse.cli.paper import Paper, Tone, joined, wrapped

if TYPE_CHECKING:
    from hanse.cli.doctor.finding import Finding
    from hanse.cli.doctor.gathering import Gathered


def doctor_page(found: "Gathered | None", findings: "Sequence[Finding]", paper: Paper) -> str:
    """The whole page."""
    lines = [_head(found, paper)] if found is not None else []
    for one in findings:
        mark = paper.paint("✘", Tone.BAD) if one.wrong else paper.paint("!", Tone.WAITING)
        lines += ["", *_hung(f"{mark} ", f"{one.code}  {one.what}", paper), *_hung("  → ", one.do, paper)]
        if one.page:
            lines.append(f"    docs/{one.page}")
    wrong = sum(one.wrong for one in findings)
    verdict = (
        paper.paint(counted(wrong, "thing") + " wrong", Tone.BAD)
        if wrong
        else paper.paint("nothing is wrong", Tone.GOOD)
    )
    return joined([*lines, "", verdict])


def _head(found: "Gathered", paper: Paper) -> str:
    if found.info is None:
        return paper.paint(f"{found.server} · this command {found.version}", Tone.DIM)
    info = found.info
    known = (
        f"{found.server} · federation {info.federation} · store {info.store} · version {info.version}",
        *([counted(len(found.status.replicas), "replica")] if found.status is not None else []),
        *([counted(len(found.pools), "pool")] if found.pools is not None else []),
        *([counted(len(found.queues), "queue")] if found.queues is not None else []),
    )
    return paper.paint(" · ".join(known), Tone.DIM)


def _hung(first: str, text: str, paper: Paper) -> list[str]:
    indent = "    " if first.startswith("  ") else "  "
    told = wrapped(text, paper.width - len(indent)) if paper.cut else [text]
    return [f"{first}{told[0]}", *[f"{indent}{rest}" for rest in told[1:]]]
