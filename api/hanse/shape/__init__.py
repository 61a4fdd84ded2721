"""Shapes of free capacity: the one placement algorithm that scheduler and agent share.

`fit` answers whether and where a gang fits, `apply` takes it out, `encode` and `decode` carry a shape in a summary.
Pure: equal inputs give equal bytes, on every machine and under every hash seed.

What an answer is worth. A fit that is *certain* is a fit on the nodes, and `apply` leaves the bytes that the agent
publishes after placing the gang: that holds for identical pods of whole GPUs within the share of their host class
(`classes`), selected by labels that the shape carries, on declared levels, with up to three slice layers, however
they are shared out (`balanced`, `ragged`, spread) and bound to one value of a label (`same`). Any other fit may be
refused below (SHAPE): a label that the shape leaves out, or a comparison of numbers, selects fewer hosts; cpu, memory
or another resource beyond the share, or a share of a GPU, is taken where the shape cannot see it. A refusal is wrong
by at most the hosts that `clipped_hosts` counts: those whose other resources are used up further than their GPUs,
those of rare classes, and those that a summary had no room for. See docs/reference/summaries.md.
"""

from hanse.shape.ask import Ask, prepare
from hanse.shape.clip import encode
from hanse.shape.codec import decode
from hanse.shape.decision import Decision, SetTake, apply
from hanse.shape.errors import ShapeError
from hanse.shape.fit import Fit, could_ever_fit, fit, fit_ask, quick_reject
from hanse.shape.limits import SUMMARY_BYTES_MAX
from hanse.shape.refuse import NoFit
from hanse.shape.shape import Cell, Group, Row, Shape

__all__ = [
    "SUMMARY_BYTES_MAX",
    "Ask",
    "Cell",
    "Decision",
    "Fit",
    "Group",
    "NoFit",
    "Row",
    "SetTake",
    "Shape",
    "ShapeError",
    "apply",
    "could_ever_fit",
    "decode",
    "encode",
    "fit",
    "fit_ask",
    "prepare",
    "quick_reject",
]
