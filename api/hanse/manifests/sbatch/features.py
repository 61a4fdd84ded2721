"""`--constraint`: features of nodes, joined by `&` and `|`, to alternatives of label requirements.

Kubernetes has labels where Slurm has features. `KEY=VALUE` asks for a label with that value, and a bare NAME for a
label of that name with any value.
"""

from typing import Final

from hanse.manifests.sbatch.script import Option
from hanse.model.names import is_qualified, quoted

TERMS_MAX: Final = 64


def constraint_terms(option: Option) -> list[list[dict[str, object]]]:
    """Alternatives, each a list of requirements that must all hold. `&` binds closer than `|`; parentheses group.

    Raises:
        InvalidArgument: reason SELECTOR_INVALID, or NOT_SUPPORTED for counts of nodes by feature and matching ones.
    """
    text = option.value
    if "[" in text or "*" in text:
        option.refuse("NOT_SUPPORTED", "nodes of different features need a hetjob with a constraint for each")
    terms = _Reader(option, text.replace(",", "&")).read()
    if len(terms) > TERMS_MAX:
        option.refuse("TOO_MANY", f"more than {TERMS_MAX} alternatives")
    return terms


class _Reader:
    """Recursive descent over `a&(b|c)`."""

    def __init__(self, option: Option, text: str) -> None:
        self._option, self._text, self._at, self._depth = option, text, 0, 0

    def read(self) -> list[list[dict[str, object]]]:
        found = self._either()
        if self._at < len(self._text):
            self._refuse()
        return found

    def _either(self) -> list[list[dict[str, object]]]:
        found = self._all()
        while self._next("|"):
            found = [*found, *self._all()]
        return found

    def _all(self) -> list[list[dict[str, object]]]:
        found = self._one()
        while self._next("&"):
            more = self._one()
            if len(found) * len(more) > TERMS_MAX:
                self._option.refuse("TOO_MANY", f"more than {TERMS_MAX} alternatives")
            found = [[*a, *b] for a in found for b in more]
        return found

    def _one(self) -> list[list[dict[str, object]]]:
        if self._next("("):
            self._depth += 1
            if self._depth > TERMS_MAX:
                self._option.refuse("TOO_MANY", f"more than {TERMS_MAX} parentheses")
            found = self._either()
            if not self._next(")"):
                self._refuse()
            return found
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in "&|()":
            self._at += 1
        return [[self._feature(self._text[start : self._at].strip())]]

    def _feature(self, word: str) -> dict[str, object]:
        key, equals, value = word.partition("=")
        if not is_qualified(key):
            self._option.refuse("SELECTOR_INVALID", f"{quoted(word)} is no label; write KEY or KEY=VALUE")
        if equals:
            return {"key": key, "operator": "In", "values": [value]}
        return {"key": key, "operator": "Exists"}

    def _next(self, char: str) -> bool:
        if self._at < len(self._text) and self._text[self._at] == char:
            self._at += 1
            return True
        return False

    def _refuse(self) -> None:
        self._option.refuse("SELECTOR_INVALID", f"{quoted(self._option.value)} cannot be read at {self._at + 1}")
