"""What the page may change: each a call of the API, with the caller's rights and the page's own request id."""

from collections.abc import Mapping

from starlette.requests import Request

from hanse.api.v1 import job_service_pb2 as jobs
from hanse.api.v1 import pool_service_pb2 as pools
from hanse.apiserver.context import CallContext
from hanse.console.desk import Desk
from hanse.console.forms import Form, job_row, pool_row
from hanse.model.errors import InvalidArgument, NotFound


class Writes:
    """Does what is ordered."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def job(self, ctx: CallContext, request: Request, body: Mapping[str, object]) -> Form:
        """Cancel, hold, release or retry a job."""
        job, number, desk = request.path_params["job"], text(body, "request_id"), self._desk
        match request.path_params["order"]:
            case "cancel":
                asked = jobs.CancelJobRequest(job=job, request_id=number)
                done = await desk.ask(ctx, desk.jobs.cancel_job, asked)
            case "hold":
                done = await desk.ask(ctx, desk.jobs.hold_job, jobs.HoldJobRequest(job=job, request_id=number))
            case "release":
                done = await desk.ask(ctx, desk.jobs.release_job, jobs.ReleaseJobRequest(job=job, request_id=number))
            case "retry":
                done = await desk.ask(ctx, desk.jobs.retry_job, jobs.RetryJobRequest(job=job, request_id=number))
            case _:
                raise _unknown()
        return {"job": job_row(done)}

    async def pool(self, ctx: CallContext, request: Request, body: Mapping[str, object]) -> Form:
        """Cordon, drain or uncordon a pool."""
        name, number, desk = request.path_params["pool"], text(body, "request_id"), self._desk
        reason = text(body, "reason")
        match request.path_params["order"]:
            case "cordon":
                cordon = pools.CordonPoolRequest(name=name, reason=reason, request_id=number)
                done = await desk.ask(ctx, desk.pools.cordon_pool, cordon)
            case "drain":
                drain = pools.DrainPoolRequest(name=name, reason=reason, request_id=number)
                done = await desk.ask(ctx, desk.pools.drain_pool, drain)
            case "uncordon":
                uncordon = pools.UncordonPoolRequest(name=name, request_id=number)
                done = await desk.ask(ctx, desk.pools.uncordon_pool, uncordon)
            case _:
                raise _unknown()
        return {"pool": pool_row(done, 0)}


def text(body: Mapping[str, object], name: str) -> str:
    """A text of the body, "" if it is not there. Raises InvalidArgument."""
    value = body.get(name, "")
    if not isinstance(value, str):
        raise InvalidArgument("give a text", reason="TEXT_INVALID", path=name)
    return value


def _unknown() -> NotFound:
    return NotFound("the console knows no such order", reason="ORDER_UNKNOWN")
