"""Who says what a value is, where several places may say it: the object, its labels, its pods, a group beside it.

Claims of equal weight must agree, and if they do not, the submission is refused with both lines, because whichever
we chose, somebody would be surprised. A weaker claim gives way to a stronger one and is named as unmapped.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hanse.manifests.fields import Field, Placed
from hanse.manifests.notes import Notes
from hanse.model.names import quoted


@dataclass(frozen=True, slots=True)
class Claims:
    """Who says what a value is: strong claims must agree, weak ones count in order, only without strong ones."""

    strong: tuple[Placed[str], ...] = ()
    weak: tuple[Placed[str], ...] = ()

    def with_strong(self, *claims: Field | None) -> "Claims":
        """These and more strong claims; fields that are not set or empty claim nothing."""
        return replace(self, strong=(*self.strong, *_said(claims)))

    def with_weak(self, *claims: Field | None) -> "Claims":
        """These and more weak claims."""
        return replace(self, weak=(*self.weak, *_said(claims)))


def _said(claims: Iterable[Field | None]) -> list[Placed[str]]:
    return [Placed(field.text(), field) for field in claims if field and field.text()]


def settle(claims: Claims, what: str, notes: Notes) -> Placed[str] | None:
    """The claim that counts, or None if there is none; `what` names the value in messages.

    Raises:
        InvalidArgument: reason CONTRADICTION.
    """
    chosen = next(iter((*claims.strong, *claims.weak)), None)
    if chosen is None:
        return None
    for claim in claims.strong:
        if claim.value != chosen.value:
            claim.field.refuse(
                "CONTRADICTION",
                f"{what} {quoted(claim.value)} here, {quoted(chosen.value)} in line {chosen.field.line}; "
                "name the same one in both",
            )
    for claim in claims.weak:
        if claim.value != chosen.value:
            notes.unmapped(claim.field, f"{quoted(chosen.value)} in line {chosen.field.line} decides the {what}")
    return chosen
