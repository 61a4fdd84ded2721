"""What was used, read page by page and added up."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hanse.api.v1 import usage_service_pb2 as pb
from hanse.api.v1 import usage_service_pb2_grpc
from hanse.client.calls import Connection
from hanse.model.errors import InvalidArgument

DIMENSIONS: Final = {
    "queue": pb.USAGE_DIMENSION_QUEUE,
    "user": pb.USAGE_DIMENSION_USER,
    "flavor": pb.USAGE_DIMENSION_FLAVOR,
    "pool": pb.USAGE_DIMENSION_POOL,
}


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used within some time.

    Attributes:
        rows: sums, the largest first; what they are not told apart by is empty.
        gaps: by month, what is not in the rows.
        until_ms: until when it counts; Unix time.
    """

    rows: list[pb.UsageRow]
    gaps: list[pb.UsageGap]
    until_ms: int


async def read_usage(
    connection: Connection, start_ms: int, end_ms: int = 0, *, by: Iterable[str] = (), queue: str = ""
) -> Usage:
    """All pages. Raises InvalidArgument: a dimension that there is not."""
    request = pb.ReadUsageRequest(start_ms=start_ms, end_ms=end_ms, by=map(_dimension, by), queue=queue)
    method = usage_service_pb2_grpc.UsageServiceStub(connection.channel).ReadUsage
    rows: dict[tuple[str, ...], pb.UsageRow] = {}
    gaps: dict[str, pb.UsageGap] = {}
    while True:
        page = await connection.unary(method, request)
        for row in page.rows:
            _add_row(rows.setdefault((row.queue, row.user, row.flavor, row.pool), pb.UsageRow()), row)
        for gap in page.gaps:
            _add_gap(gaps.setdefault(gap.month, pb.UsageGap()), gap)
        if not page.next_page_token:
            order = sorted(rows, key=lambda key: (-rows[key].gpu_ms, key))
            return Usage([rows[key] for key in order], [gaps[month] for month in sorted(gaps)], page.until_ms)
        request.page_token = page.next_page_token


def _dimension(name: str) -> pb.UsageDimension.ValueType:
    if name not in DIMENSIONS:
        what = f"{name!r} is no dimension of usage; there are {', '.join(DIMENSIONS)}"
        raise InvalidArgument(what, reason="DIMENSION_INVALID", path="by")
    return DIMENSIONS[name]


def _add_row(into: pb.UsageRow, row: pb.UsageRow) -> None:
    sums = (into.gpu_ms + row.gpu_ms, into.cost_micros + row.cost_micros, into.attempts + row.attempts)
    into.CopyFrom(row)
    into.gpu_ms, into.cost_micros, into.attempts = sums


def _add_gap(into: pb.UsageGap, gap: pb.UsageGap) -> None:
    into.month = gap.month
    into.jobs += gap.jobs
    into.gpu_ms += gap.gpu_ms
    into.lost_ms = max(into.lost_ms, gap.lost_ms)
