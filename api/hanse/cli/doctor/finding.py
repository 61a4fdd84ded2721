"""One thing that is wrong, or worth knowing, and what to do about it. Pure."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding.

    Attributes:
        code: for programs; never changes its meaning.
        what: one line: what is wrong, where.
        do: one line: what to do.
        page: of the documentation, below `docs/`; "" if none is about it.
        wrong: something is wrong; else it is worth knowing.
    """

    code: str
    what: str
    do: str
    page: str = ""
    wrong: bool = True

    def plain(self) -> dict[str, object]:
        """As a program is given it."""
        return {"code": self.code, "wrong": self.wrong, "what": self.what, "do": self.do, "page": self.page}


OPERATIONS: Final = "operations/"


def runbook(alert: str) -> str:
    """The page of an alert."""
    return f"{OPERATIONS}{alert}.md"
