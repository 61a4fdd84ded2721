"""Lines of a pod's log."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from hanse.agent.cluster.kubernetes.api import NOT_FOUND, Api, Refused
from hanse.agent.cluster.kubernetes.objects import Meta
from hanse.agent.cluster.port import PORT_DEADLINE_S, ClusterUnavailable

SILENCE_MAX_S: Final = 3_600.0
"""Of a log that is followed: a program may say nothing for long."""

LINE_BYTES_MAX: Final = 1 << 20
_BAD_REQUEST: Final = 400


async def lines_of(
    api: Api, pod: Meta, container: str, *, follow: bool, tail: int
) -> AsyncGenerator[tuple[str, ...], None]:
    """Whole lines as they arrive; `tail` 0 is all of them. None if there is no log (any more).

    Raises:
        ClusterUnavailable
    """
    query = {"container": container}
    if follow:
        query["follow"] = "true"
    if tail:
        query["tailLines"] = str(tail)
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"
    rest = b""
    try:
        async with aclosing(
            api.stream(path, query, silence_s=SILENCE_MAX_S if follow else PORT_DEADLINE_S)
        ) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > LINE_BYTES_MAX:
                    lines, rest = [*lines, rest], b""
                if lines:
                    yield tuple(line.decode(errors="replace") for line in lines)
    except Refused as refused:
        if refused.code not in (NOT_FOUND, _BAD_REQUEST):
            raise ClusterUnavailable(f"the log of {pod.name} cannot be read: {refused}") from None
    if rest:
        yield (rest.decode(errors="replace"),)
