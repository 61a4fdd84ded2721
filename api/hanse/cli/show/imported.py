"""What became of another system's configuration: objects, levels, and each field that is not acted on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hanse.cli.amounts import counted
from hanse.cli.paper import Paper, Tone
from hanse.cli.show.conversion import unmapped_lines
from hanse.cli.show.submitted import applied_page

if TYPE_CHECKING:
    from hanse.api.v1.config_service_pb2 import AppliedObject
    from hanse.manifests import ImportedConfig


def imported_page(results: "Sequence[AppliedObject]", found: "ImportedConfig", paper: Paper, *, file: str) -> str:
    """The objects, then the levels of topologies, then what is left out."""
    text = applied_page(results, paper) if results or not found.levels else ""
    for one in found.levels:
        levels = ", ".join(f"{level.key} ({level.alias})" if level.alias else level.key for level in one.levels)
        text += f"topology {paper.paint(one.name, Tone.STRONG)}  levels {levels or 'the host alone'}\n"
    if found.levels:
        hint = "agents find levels in the labels of nodes; `-o native` prints them for an agent's settings"
        text += f"{paper.paint(hint, Tone.DIM)}\n"
    if found.unmapped:
        text += f"\n{counted(len(found.unmapped), 'field')} not acted on:\n"
        text += "".join(f"  {line}\n" for line in unmapped_lines(found.unmapped, file))
    return text
