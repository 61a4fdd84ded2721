"""Watches that outlive connections: resume where the last answer left off, list again where history is gone.

What a caller sees: every matching job once as it is (if a snapshot was asked for), then every change, in the order of
revisions, none missing. After a break the stream goes on at the last revision seen. If that is older than the server
keeps, a new snapshot is sent instead; changes in between are then seen as their result.
"""

import asyncio
from collections.abc import AsyncIterator

from hanse.api.v1 import job_service_pb2 as pb
from hanse.client.calls import Connection, StreamCall
from hanse.model.errors import OutOfRange, ResourceExhausted, Unavailable


async def watch_jobs(
    connection: Connection,
    method: StreamCall[pb.WatchJobsRequest, pb.WatchJobsResponse],
    request: pb.WatchJobsRequest,
    *,
    failures_max: int,
) -> AsyncIterator[pb.WatchJobsResponse]:
    """Follow jobs for as long as the caller iterates.

    Args:
        failures_max: connections in a row that may fail without an answer before the watch gives up.

    Raises:
        HanseError: the server's refusal, or Unavailable after `failures_max` failures in a row.
    """
    asked = pb.WatchJobsRequest()
    asked.CopyFrom(request)
    failed = 0
    while True:
        try:
            async for response in connection.stream(method, asked):
                failed = 0
                _advance(asked, response)
                yield response
            raise Unavailable("the server ended the watch", reason="WATCH_ENDED")
        except OutOfRange:
            failed += 1
            if failed > failures_max:
                raise
            asked.after_revision, asked.snapshot = 0, True
        except (Unavailable, ResourceExhausted):
            failed += 1
            if failed > failures_max:
                raise
            await asyncio.sleep(connection.pause_s(failed))


def _advance(asked: pb.WatchJobsRequest, response: pb.WatchJobsResponse) -> None:
    """What to ask next time. A snapshot that broke off before it was complete begins anew."""
    if response.synced or not asked.snapshot:
        asked.after_revision, asked.snapshot = response.revision, False
