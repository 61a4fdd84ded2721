"""A cluster's errors as statuses of a call, in the form that every client of Hanse reads.

The status carries a `google.rpc.Status` with an ErrorInfo (reason, field path), so that the CLI shows a simulated
cluster's refusal just like the API server's.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc.aio import ServicerContext

from hanse.model.errors import HanseError
from hanse.wire.errors import DOMAIN, code_of

Context = ServicerContext[Any, Any]

STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


@asynccontextmanager
async def refusing(context: Context) -> AsyncIterator[None]:
    """Let a HanseError end the call with its status."""
    try:
        yield
    except HanseError as error:
        await context.abort(_CODES[code_of(error)], error.message, ((STATUS_DETAILS_KEY, _details(error)),))


def _details(error: HanseError) -> bytes:
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata={"path": error.path})
    packed = any_pb2.Any()
    packed.Pack(info)
    status = status_pb2.Status(code=code_of(error), message=error.message, details=[packed])
    raw: bytes = status.SerializeToString()
    return raw
