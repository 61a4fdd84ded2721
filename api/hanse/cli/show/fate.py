"""What a failure or a repair of simulated machines meant."""

from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, first_few
from hanse.cli.paper import Paper, joined

if TYPE_CHECKING:
    from hanse.sim.v1.sim_pb2 import PathResponse

NAMES_SHOWN_MAX: Final = 4


def fate_page(done: str, answer: "PathResponse", paper: Paper) -> str:
    """`failed 1 node (iowa-b7-r03-h11); 1 gang lost pods: 4x2k…, attempt 1`."""
    nodes = f"{done} {counted(len(answer.nodes), 'node')} ({first_few(answer.nodes, NAMES_SHOWN_MAX)})"
    gangs = [f"{gang.job}, attempt {gang.attempt}" for gang in answer.gangs]
    if not gangs:
        return joined([nodes])
    return joined([f"{nodes}; {counted(len(gangs), 'gang')} lost pods:", *(f"  {gang}" for gang in gangs)])
