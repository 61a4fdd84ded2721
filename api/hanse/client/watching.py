"""Watches that outlive connections: resume where the last answer left off, list again where history is gone.

What a caller sees: every matching job once as it is (if a snapshot was asked for), then every change, in the order of
revisions, none missing. After a break the stream goes on at the last revision seen. If that is older than the server
keeps, a new snapshot is sent instead; changes in between are then seen as their result.

Events have no revision to resume from, so after a break they are asked for again since the last one, and what was
seen already is left out; what the servers have forgotten by then is missing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from hanse.api.v1 import event_service_pb2 as events_pb
from hanse.api.v1 import job_service_pb2 as pb
from hanse.client.calls import Connection, StreamCall
from hanse.model.errors import OutOfRange, ResourceExhausted, Unavailable

EVENTS_REMEMBERED_MAX: Final = 10_000
"""Events that a reader of events knows again after a break."""


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


async def follow_events(
    connection: Connection,
    method: StreamCall[events_pb.TailEventsRequest, events_pb.TailEventsResponse],
    request: events_pb.TailEventsRequest,
    *,
    failures_max: int,
) -> AsyncIterator[events_pb.TailEventsResponse]:
    """Events, the past first; if the request follows, over breaks. Arguments and errors as `watch_jobs`."""
    asked = events_pb.TailEventsRequest()
    asked.CopyFrom(request)
    seen: OrderedDict[bytes, None] = OrderedDict()
    failed = 0
    while True:
        try:
            async for response in connection.stream(method, asked):
                failed = 0
                _without_seen(response, seen)
                asked.since_ms = max([asked.since_ms, *(event.at_ms for event in response.events)])
                yield response
            return
        except OutOfRange:
            if not seen:
                raise
            asked.since_ms = 0
        except (Unavailable, ResourceExhausted):
            failed += 1
            if not request.follow or failed > failures_max:
                raise
            await asyncio.sleep(connection.pause_s(failed))


def _without_seen(response: events_pb.TailEventsResponse, seen: "OrderedDict[bytes, None]") -> None:
    """Leave out of a response what was seen before, and remember the rest."""
    news = [(event, event.SerializeToString(deterministic=True)) for event in response.events]
    news = [(event, known) for event, known in news if known not in seen]
    del response.events[:]
    response.events.extend(event for event, _ in news)
    seen.update((known, None) for _, known in news)
    while len(seen) > EVENTS_REMEMBERED_MAX:
        seen.popitem(last=False)
