"""What an importer leaves behind beside the job: which fields it did not map, in the order of their lines.

The rule, which holds for every kind:

1. A field that shapes the job in Hanse is *mapped* and never listed.
2. A field that only describes what runs (image, ports, volumes, probes, service account, …) is *kept*: the agent
   creates the object as written, so nothing is lost and nothing is listed.
3. A field that asks the scheduler, or the controller that Hanse stands in for, for something that will not be done
   is *unmapped*: listed with path, line and why.
4. A field that Hanse does not know is unmapped too, with the nearest known name: it may be a slip of the pen.
5. What a mapped list had to leave out (an environment variable that a cluster fills in) is unmapped.
6. What can be held only in part is mapped as far as it goes, and listed with what is missing. A condition on nodes
   that would be widened by leaving a part of it out is refused.

`audit` applies the rule to one object of the API with three sets of names, so that a field in none of them cannot
be overlooked.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from hanse.manifests.converted import Unmapped
from hanse.manifests.fields import Field, suggestion

_NOTHING: Mapping[str, str] = MappingProxyType({})
UNKNOWN_WHY = "no field that Hanse knows; it stays in the object as written"


class Notes:
    """Collects what is not mapped."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], Unmapped] = {}

    def unmapped(self, field: Field, why: str) -> None:
        """Name a field that Hanse does not act on. The first reason given for a field stays."""
        self._found.setdefault((field.line, field.path), Unmapped(field.path, field.line, why))

    def all(self) -> tuple[Unmapped, ...]:
        """Everything named, by line and path."""
        return tuple(self._found[key] for key in sorted(self._found))


def audit(
    field: Field,
    notes: Notes,
    *,
    mapped: Collection[str],
    kept: Collection[str] = (),
    why: Mapping[str, str] = _NOTHING,
) -> None:
    """Sort every field of an object into mapped, kept and unmapped, and name the unmapped ones.

    Args:
        mapped: names that the caller reads.
        kept: names that only describe what runs.
        why: names that are not acted on, each with the reason that the user is told.
    """
    for name, child in field.entries():
        if name in mapped or name in kept:
            continue
        if name in why:
            notes.unmapped(child, why[name])
            continue
        notes.unmapped(child, UNKNOWN_WHY + suggestion(name, [*mapped, *kept, *why]))
