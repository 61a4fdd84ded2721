"""Shapes of free capacity: the one placement algorithm that scheduler and agent share.

`fit` answers whether and where a gang fits, `apply` takes it out, `encode` and `decode` carry a shape in a summary.
Pure: equal inputs give equal bytes, on every machine and under every hash seed.
"""

from hanse.shape.clip import encode
from hanse.shape.codec import decode
from hanse.shape.decision import Decision, SetTake, apply
from hanse.shape.errors import ShapeError
from hanse.shape.fit import Fit, could_ever_fit, fit, fit_ask, quick_reject
from hanse.shape.lens import Ask, prepare
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
