"""The Python SDK: `AsyncClient` for asyncio, `Client` for everybody else.

    from hanse.client import Client

    with Client() as hanse:
        job = hanse.submit(open("train.yaml").read()).jobs[0]
        print(hanse.wait(job.id, until="running").status.placement)

Both take and return the messages of `hanse.api.v1`, whose generated code is typed: what a field means is written in
one place, the protos, and a server that is newer than the SDK loses nothing on the way. Errors are those of
`hanse.model.errors`, whatever the transport. Every call ends within its deadline; every write carries a request id,
so that it can be repeated, and is repeated a bounded number of times when the server cannot be reached. Watches
reconnect by themselves and miss nothing.

Importing this module imports no transport: names are looked up on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hanse.client.aio import AsyncClient
    from hanse.client.blocking import Client
    from hanse.client.submission import Refusal, Submission
    from hanse.client.waiting import Until

_HOMES: Final = {
    "AsyncClient": "hanse.client.aio",
    "Client": "hanse.client.blocking",
    "Refusal": "hanse.client.submission",
    "Submission": "hanse.client.submission",
    "Until": "hanse.client.waiting",
}

__all__ = ["AsyncClient", "Client", "Refusal", "Submission", "Until"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
