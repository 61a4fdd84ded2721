"""Lists of jobs, read through from the store page by page.

Jobs lie in the order of their ids, so a list is a scan with a filter, and a scan has a limit: a page looks at no more
than STATES_SCANNED_MAX records, or SPECS_SCANNED_MAX specs where the filter needs them, and may come back short or
empty with a token. A prefix of a name is looked up in the index of names instead.

All pages of a listing show the states of one revision, that of the first page. When the store has compacted it away,
the next page is OUT_OF_RANGE.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from hanse.api.v1 import job_service_pb2
from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.context import CallContext
from hanse.apiserver.job_messages import job_message
from hanse.apiserver.lookup import found_of, read_found
from hanse.apiserver.pages import PageToken, invalid_token, page_size, read_token, write_token
from hanse.apiserver.rows import Found, JobReader
from hanse.apiserver.sight import Sight
from hanse.model.errors import InvalidArgument
from hanse.model.ids import QueueUid
from hanse.model.lifecycle import State
from hanse.model.names import SUBDOMAIN_CHARS_MAX, quoted
from hanse.store import keys
from hanse.store.contract import RangeResult, Store, StoreLimit, key_after, prefix_end
from hanse.wire.enums import enum_from_wire
from hanse.wire.limits import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX

STATES_SCANNED_MAX: Final = 20_000
SPECS_SCANNED_MAX: Final = 2_000
KEYS_PER_STEP: Final = 500


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are wanted.

    Attributes:
        states: empty for all.
        labels: all of them.
        name_prefix: "" for all.
    """

    states: frozenset[State]
    labels: Mapping[str, str]
    name_prefix: str

    @property
    def scanned_max(self) -> int:
        """Records that one page looks at."""
        return SPECS_SCANNED_MAX if self.labels or self.name_prefix else STATES_SCANNED_MAX


_Span: TypeAlias = tuple[tuple[str, str], ...]


class JobLister:
    """Answers ListJobs."""

    def __init__(self, store: Store, reader: JobReader, sight: Sight) -> None:
        self._store = store
        self._reader = reader
        self._sight = sight

    async def page(
        self, ctx: CallContext, request: job_service_pb2.ListJobsRequest
    ) -> job_service_pb2.ListJobsResponse:
        """One page.

        Raises:
            InvalidArgument: a filter, page size or token that is wrong.
            NotFound: reason QUEUE_NOT_FOUND.
            Compacted: the revision of the first page is no longer kept.
        """
        token = read_token(request.page_token, request)
        size = page_size(request.page_size, default=PAGE_SIZE_DEFAULT, most=PAGE_SIZE_MAX)
        wanted = read_filter(request)
        span = await self._span(ctx.access, request.queue, wanted)
        found, token = await self._scan(span, wanted, token, size)
        full = request.view == job_service_pb2.JOB_VIEW_FULL
        rows = await self._reader.rows(found, specs=full)
        return job_service_pb2.ListJobsResponse(
            jobs=[job_message(row, full=full) for row in rows],
            next_page_token=write_token(token) if token.after else "",
            revision=token.revision,
        )

    async def _span(self, access: Access, queue: str, wanted: Filter) -> _Span:
        """The ranges of keys to scan, in order: none of a queue that the caller does not see."""
        if queue:
            uids = [(await self._sight.queue(access, queue)).value.uid]
        elif wanted.name_prefix or not access.everywhere(Verb.VIEW):
            uids = sorted(stored.value.uid for stored in (await self._sight.queues(access)).values())
        else:
            return ((keys.STATES, prefix_end(keys.STATES)),)
        starts = [_start(QueueUid(uid), wanted) for uid in uids]
        return tuple((start, prefix_end(start)) for start in starts)

    async def _scan(self, span: _Span, wanted: Filter, token: PageToken, size: int) -> tuple[list[Found], PageToken]:
        """Up to `size` jobs behind the token, and the token of the next page (`after` is "" on the last)."""
        found: list[Found] = []
        scanned, revision = 0, token.revision
        for start, end in span:
            at = max(start, key_after(token.after)) if token.after else start
            while at < end:
                page = await self._range(at, end, revision)
                revision = revision or page.revision
                kept = await self._matching(page, wanted)
                for kv in page.items:
                    if kv.key in kept:
                        found.append(kept[kv.key])
                    scanned += 1
                    if len(found) == size or scanned == wanted.scanned_max:
                        return found, PageToken(token.filter, revision, kv.key)
                if not page.more:
                    break
                at = key_after(page.items[-1].key)
        return found, PageToken(token.filter, revision, "")

    async def _range(self, start: str, end: str, revision: int) -> RangeResult:
        try:
            return await self._store.range(start, end, limit=KEYS_PER_STEP, at_revision=revision)
        except StoreLimit:
            raise invalid_token("is of a moment that this store has not seen") from None

    async def _matching(self, page: RangeResult, wanted: Filter) -> dict[str, Found]:
        """The jobs of a page that the filter lets through, by the key that led to them."""
        if wanted.name_prefix:
            by_key = {kv.key: keys.job_of(kv.key) for kv in page.items}
            there = {f.job: f for f in await read_found(self._store, list(by_key.values()))}
            found = {key: there[job] for key, job in by_key.items() if job in there}
        else:
            found = {kv.key: found_of(kv) for kv in page.items}
        if wanted.states:
            found = {key: f for key, f in found.items() if f.state.state in wanted.states}
        if wanted.labels:
            heads = await self._reader.heads([f.job for f in found.values()])
            found = {key: f for key, f in found.items() if has_labels(heads[f.job].labels, wanted.labels)}
        return found


def read_filter(request: job_service_pb2.ListJobsRequest) -> Filter:
    """The filter of a request. Raises InvalidArgument."""
    states = [enum_from_wire(State, number, f"states[{i}]") for i, number in enumerate(request.states)]
    prefix = request.name_prefix
    if len(prefix) > SUBDOMAIN_CHARS_MAX or "/" in prefix or "\0" in prefix:
        raise InvalidArgument(
            f"{quoted(prefix)} is not the beginning of a name", reason="NAME_INVALID", path="name_prefix"
        )
    return Filter(frozenset(states), dict(request.labels), prefix)


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether all wanted labels are there."""
    return all(labels.get(key) == value for key, value in wanted.items())


def _start(uid: QueueUid, wanted: Filter) -> str:
    return keys.names(uid, wanted.name_prefix) if wanted.name_prefix else keys.states(uid)
