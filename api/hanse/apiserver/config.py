"""ConfigService as coroutines on messages: flavors, priority classes and cohorts each; everything by `Apply`."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from hanse.api.v1 import config_pb2, config_service_pb2
from hanse.apiserver.applying import Applier
from hanse.apiserver.catalog import Stored, read_cohorts, read_flavors, read_priorities
from hanse.apiserver.context import CallContext
from hanse.apiserver.kinds import COHORT, FLAVOR, PRIORITY_CLASS, Kind
from hanse.apiserver.references import check_revision
from hanse.apiserver.requests import Request
from hanse.apiserver.suggest import did_you_mean
from hanse.apiserver.world import Read, Setting, check_number, read_everything
from hanse.apiserver.writes import PlannedWrite, Writer
from hanse.model.errors import AlreadyExists, NotFound
from hanse.model.names import quoted
from hanse.model.queue import Cohort, Flavor, PriorityClass
from hanse.store.contract import Delete, ModRevisionIs, Put, Store

M = TypeVar("M", bound=Message)
A = TypeVar("A", bound=Message)
V = TypeVar("V", Flavor, PriorityClass, Cohort)


class ConfigService:
    """The methods of hanse.api.v1.ConfigService."""

    def __init__(self, store: Store, writer: Writer, applier: Applier) -> None:
        self._store = store
        self._writer = writer
        self._applier = applier

    async def apply(
        self, ctx: CallContext, request: config_service_pb2.ApplyRequest
    ) -> config_service_pb2.ApplyResponse:
        """See `Applier.apply`."""
        return await self._applier.apply(ctx, request)

    # ---- flavors --------------------------------------------------------------------------------------------

    async def create_flavor(
        self, ctx: CallContext, request: config_service_pb2.CreateFlavorRequest
    ) -> config_pb2.Flavor:
        return await self._create(ctx, FLAVOR, request, request.flavor)

    async def get_flavor(self, ctx: CallContext, request: config_service_pb2.GetFlavorRequest) -> config_pb2.Flavor:
        flavors = {str(name): stored for name, stored in (await read_flavors(self._store)).items()}
        return _one(FLAVOR, request.name, flavors)

    async def list_flavors(
        self, ctx: CallContext, request: config_service_pb2.ListFlavorsRequest
    ) -> config_service_pb2.ListFlavorsResponse:
        stored = sorted((await read_flavors(self._store)).values(), key=lambda s: (s.value.order, s.value.name))
        return config_service_pb2.ListFlavorsResponse(flavors=[FLAVOR.show(s.value, s.revision) for s in stored])

    async def update_flavor(
        self, ctx: CallContext, request: config_service_pb2.UpdateFlavorRequest
    ) -> config_pb2.Flavor:
        return await self._update(ctx, FLAVOR, request, request.flavor, request.flavor.revision)

    async def delete_flavor(
        self, ctx: CallContext, request: config_service_pb2.DeleteFlavorRequest
    ) -> config_service_pb2.DeleteFlavorResponse:
        return await self._delete(ctx, FLAVOR, request, request.name, config_service_pb2.DeleteFlavorResponse())

    # ---- priority classes -----------------------------------------------------------------------------------

    async def create_priority_class(
        self, ctx: CallContext, request: config_service_pb2.CreatePriorityClassRequest
    ) -> config_pb2.PriorityClass:
        return await self._create(ctx, PRIORITY_CLASS, request, request.priority_class)

    async def get_priority_class(
        self, ctx: CallContext, request: config_service_pb2.GetPriorityClassRequest
    ) -> config_pb2.PriorityClass:
        return _one(PRIORITY_CLASS, request.name, await read_priorities(self._store))

    async def list_priority_classes(
        self, ctx: CallContext, request: config_service_pb2.ListPriorityClassesRequest
    ) -> config_service_pb2.ListPriorityClassesResponse:
        stored = sorted((await read_priorities(self._store)).values(), key=lambda s: (-s.value.value, s.value.name))
        return config_service_pb2.ListPriorityClassesResponse(
            priority_classes=[PRIORITY_CLASS.show(s.value, s.revision) for s in stored]
        )

    async def update_priority_class(
        self, ctx: CallContext, request: config_service_pb2.UpdatePriorityClassRequest
    ) -> config_pb2.PriorityClass:
        wanted = request.priority_class
        return await self._update(ctx, PRIORITY_CLASS, request, wanted, wanted.revision)

    async def delete_priority_class(
        self, ctx: CallContext, request: config_service_pb2.DeletePriorityClassRequest
    ) -> config_service_pb2.DeletePriorityClassResponse:
        answer = config_service_pb2.DeletePriorityClassResponse()
        return await self._delete(ctx, PRIORITY_CLASS, request, request.name, answer)

    # ---- cohorts --------------------------------------------------------------------------------------------

    async def create_cohort(
        self, ctx: CallContext, request: config_service_pb2.CreateCohortRequest
    ) -> config_pb2.Cohort:
        return await self._create(ctx, COHORT, request, request.cohort)

    async def get_cohort(self, ctx: CallContext, request: config_service_pb2.GetCohortRequest) -> config_pb2.Cohort:
        return _one(COHORT, request.name, await read_cohorts(self._store))

    async def list_cohorts(
        self, ctx: CallContext, request: config_service_pb2.ListCohortsRequest
    ) -> config_service_pb2.ListCohortsResponse:
        stored = await read_cohorts(self._store)
        return config_service_pb2.ListCohortsResponse(
            cohorts=[COHORT.show(stored[name].value, stored[name].revision) for name in sorted(stored)]
        )

    async def update_cohort(
        self, ctx: CallContext, request: config_service_pb2.UpdateCohortRequest
    ) -> config_pb2.Cohort:
        return await self._update(ctx, COHORT, request, request.cohort, request.cohort.revision)

    async def delete_cohort(
        self, ctx: CallContext, request: config_service_pb2.DeleteCohortRequest
    ) -> config_service_pb2.DeleteCohortResponse:
        return await self._delete(ctx, COHORT, request, request.name, config_service_pb2.DeleteCohortResponse())

    # ---- what they share ------------------------------------------------------------------------------------

    async def _create(self, ctx: CallContext, kind: Kind[M, V], request: Message, message: M) -> M:
        value = kind.parse(message, kind.word)

        async def change(read: Read, revision: int) -> None:
            if revision:
                raise AlreadyExists(
                    f"{kind.plain} {quoted(value.name)} exists; update it, or choose another name",
                    reason=f"{kind.reason}_EXISTS",
                    path=f"{kind.word}.name",
                )
            there = sum(1 for word, _ in read.revisions if word == kind.word)
            check_number(there, kind.objects_max, kind.plain)

        return await self._write(ctx, f"Create{kind.reason}", kind, request, value, change)

    async def _update(self, ctx: CallContext, kind: Kind[M, V], request: Message, message: M, wanted: int) -> M:
        value = kind.parse(message, kind.word)

        async def change(read: Read, revision: int) -> None:
            if not revision:
                raise _not_found(kind, value.name, read, path=f"{kind.word}.name")
            check_revision(wanted, revision, kind.word)

        return await self._write(ctx, f"Update{kind.reason}", kind, request, value, change)

    async def _write(
        self,
        ctx: CallContext,
        method: str,
        kind: Kind[M, V],
        request: Message,
        value: V,
        allowed: Callable[[Read, int], Awaitable[None]],
    ) -> M:
        async def plan(_: Request) -> PlannedWrite[M]:
            read = await read_everything(self._store)
            revision = read.revisions.get((kind.word, str(value.name)), 0)
            await allowed(read, revision)
            setting: Setting = value
            read.everything.with_all([setting]).check(setting, path=kind.word)
            key = kind.key(value.name)
            put = Put(key, kind.store(value))
            return PlannedWrite((ModRevisionIs(key, revision),), (put,), kind.show(value, 0))

        return await self._writer.write(ctx, method, request, plan, kind.message)

    async def _delete(self, ctx: CallContext, kind: Kind[M, V], request: Message, name: str, answer: A) -> A:
        async def plan(_: Request) -> PlannedWrite[A]:
            read = await read_everything(self._store)
            revision = read.revisions.get((kind.word, name), 0)
            if not revision:
                raise _not_found(kind, name, read, path="name")
            read.everything.check_removed(kind.word, name)
            key = kind.key(name)
            return PlannedWrite((ModRevisionIs(key, revision),), (Delete(key),), answer)

        return await self._writer.write(ctx, f"Delete{kind.reason}", request, plan, type(answer))


def _one(kind: Kind[M, V], name: str, stored: dict[str, Stored[V]]) -> M:
    found = stored.get(name)
    if found is None:
        raise _missing(kind, name, list(stored), path="name")
    return kind.show(found.value, found.revision)


def _not_found(kind: Kind[M, V], name: str, read: Read, *, path: str) -> NotFound:
    return _missing(kind, name, [n for word, n in read.revisions if word == kind.word], path=path)


def _missing(kind: Kind[M, V], name: str, known: list[str], *, path: str) -> NotFound:
    hint = did_you_mean(name, known)
    return NotFound(f"{kind.plain} {quoted(name)} does not exist{hint}", reason=f"{kind.reason}_NOT_FOUND", path=path)
