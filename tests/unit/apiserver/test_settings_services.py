"""Queues, flavors, priority classes and cohorts: made, changed, applied as files, and not removed while in use."""

import asyncio

import pytest

from hanse.api.v1 import config_pb2, config_service_pb2, queue_pb2, queue_service_pb2
from hanse.api.v1.config_service_pb2 import ConfigObject
from hanse.model.errors import AlreadyExists, FailedPrecondition, HanseError, InvalidArgument, NotFound, Unavailable
from hanse.store import keys
from hanse.store.contract import Delete, Put, Txn, prefix_end
from hanse.store.schema import HolderValue, ReplicaValue, decode, encode
from tests.unit.apiserver.stage import CTX, GPU, Stage, batch, objects, spec, stage


def create(queue: queue_pb2.Queue, request_id: str = "") -> queue_service_pb2.CreateQueueRequest:
    return queue_service_pb2.CreateQueueRequest(queue=queue, request_id=request_id)


async def apply(
    on: Stage, *changes: ConfigObject, atomic: bool = False, validate_only: bool = False
) -> list[config_service_pb2.AppliedObject]:
    request = config_service_pb2.ApplyRequest(objects=changes, atomic=atomic, validate_only=validate_only)
    return list((await on.api.config.apply(CTX, request)).results)


async def get(on: Stage, name: str) -> queue_pb2.Queue:
    return await on.api.queues.get_queue(CTX, queue_service_pb2.GetQueueRequest(name=name))


def cohort(name: str, parent: str = "") -> ConfigObject:
    return ConfigObject(cohort=config_pb2.Cohort(name=name, parent=parent))


def flavor(name: str, order: int = 0) -> ConfigObject:
    return ConfigObject(flavor=config_pb2.Flavor(name=name, order=order))


def queue(name: str, *, cohort: str = "", flavors: tuple[str, ...] = ()) -> ConfigObject:
    quotas = [queue_pb2.FlavorQuota(flavor=f, nominal={GPU: 8}) for f in flavors]
    return ConfigObject(queue=queue_pb2.Queue(name=name, cohort=cohort, quotas=quotas))


# ---- queues -------------------------------------------------------------------------------------------------


async def test_a_queue_is_made_shown_and_listed() -> None:
    async with stage() as on:
        quota = queue_pb2.FlavorQuota(flavor="h100", nominal={GPU: 64, "cpu": 1})
        made = await on.api.queues.create_queue(
            CTX, create(queue_pb2.Queue(name="b", quotas=[quota], labels={"a": "b"}))
        )
        shown = await get(on, "b")
        page = await on.api.queues.list_queues(CTX, queue_service_pb2.ListQueuesRequest(page_size=1))
        rest = await on.api.queues.list_queues(
            CTX, queue_service_pb2.ListQueuesRequest(page_size=1, page_token=page.next_page_token)
        )
    shown.ClearField("status")
    assert shown == made
    assert made.revision > 0
    assert ([q.name for q in page.queues], [q.name for q in rest.queues]) == (["b"], ["research"])
    assert rest.next_page_token == ""


async def test_making_a_queue_twice() -> None:
    async with stage() as on:
        first = await on.api.queues.create_queue(CTX, create(queue_pb2.Queue(name="b"), "r1"))
        again = await on.api.queues.create_queue(CTX, create(queue_pb2.Queue(name="b"), "r1"))
        with pytest.raises(AlreadyExists) as refused:
            await on.api.queues.create_queue(CTX, create(queue_pb2.Queue(name="b"), "r2"))
    assert first == again
    assert refused.value.reason == "QUEUE_EXISTS"


async def test_an_update_keeps_uid_age_and_hold() -> None:
    async with stage() as on:
        made = await on.api.queues.create_queue(CTX, create(queue_pb2.Queue(name="b")))
        await on.api.queues.hold_queue(CTX, queue_service_pb2.HoldQueueRequest(name="b"))
        changed = await on.api.queues.update_queue(
            CTX, queue_service_pb2.UpdateQueueRequest(queue=queue_pb2.Queue(name="b", labels={"x": "y"}))
        )
        released = await on.api.queues.release_queue(CTX, queue_service_pb2.ReleaseQueueRequest(name="b"))
    assert (changed.uid, changed.created_ms, changed.held) == (made.uid, made.created_ms, True)
    assert (dict(released.labels), released.held) == ({"x": "y"}, False)


async def test_an_update_of_an_older_revision_is_refused() -> None:
    async with stage() as on:
        made = await on.api.queues.create_queue(CTX, create(queue_pb2.Queue(name="b")))
        await on.api.queues.hold_queue(CTX, queue_service_pb2.HoldQueueRequest(name="b"))
        with pytest.raises(FailedPrecondition) as refused:
            await on.api.queues.update_queue(CTX, queue_service_pb2.UpdateQueueRequest(queue=made))
    assert (refused.value.reason, refused.value.path) == ("REVISION_MISMATCH", "queue.revision")


@pytest.mark.parametrize(
    ("message", "reason", "path"),
    [
        (queue_pb2.Queue(name="No"), "NAME_INVALID", "queue.name"),
        (queue_pb2.Queue(name="b", cohort="nowhere"), "COHORT_UNKNOWN", "queue.cohort"),
        (queue_pb2.Queue(name="b", aliases=["A b"]), "NAME_INVALID", "queue.aliases[0]"),
        (queue_pb2.Queue(name="b", aliases=["research"]), "ALIAS_TAKEN", "queue.aliases"),
        (queue_pb2.Queue(name="b", quotas=[{"flavor": "h10"}]), "FLAVOR_UNKNOWN", "queue.quotas[0].flavor"),  # type: ignore[list-item]
        (
            queue_pb2.Queue(name="b", quotas=[queue_pb2.FlavorQuota(flavor="h100", nominal={GPU: -1})]),
            "AMOUNT_OUT_OF_RANGE",
            f'queue.quotas[0].nominal["{GPU}"]',
        ),
        (
            queue_pb2.Queue(name="b", quotas=[queue_pb2.FlavorQuota(flavor="h100", nominal={GPU: 0})]),
            "AMOUNT_OUT_OF_RANGE",
            f'queue.quotas[0].nominal["{GPU}"]',
        ),
        (
            queue_pb2.Queue(name="b", quotas=[queue_pb2.FlavorQuota(flavor="h100")] * 2),
            "DUPLICATE",
            "queue.quotas[1].flavor",
        ),
        (queue_pb2.Queue(name="b", labels={"a b": "c"}), "LABEL_INVALID", "queue.labels"),
    ],
)
async def test_queues_that_are_refused(message: queue_pb2.Queue, reason: str, path: str) -> None:
    async with stage() as on:
        with pytest.raises(HanseError) as refused:
            await on.api.queues.create_queue(CTX, create(message))
        assert await on.count(keys.QUEUES) == 1
    assert (refused.value.reason, refused.value.path) == (reason, path)


async def test_what_is_in_a_queue() -> None:
    async with stage() as on:
        await on.submit(batch(spec("a"), spec("b")))
        status = (await get(on, "research")).status
    assert (status.pending_jobs, status.live_jobs, status.exact) == (2, 0, True)
    assert {use.flavor: dict(use.used) for use in status.used} == {"h100": {GPU: 16}}


# ---- deleting a queue ---------------------------------------------------------------------------------------


def delete(request_id: str = "") -> queue_service_pb2.DeleteQueueRequest:
    return queue_service_pb2.DeleteQueueRequest(name="research", request_id=request_id)


async def members(on: Stage, **schedules: bool) -> None:
    values = {name: ReplicaValue("n", schedules=able) for name, able in schedules.items()}
    await on.store.core.transact(Txn((), tuple(Put(keys.REPLICAS + name, encode(v)) for name, v in values.items())))


async def give(on: Stage, name: str, holder: str, *, apart: bool = False) -> queue_pb2.Queue:
    request = queue_service_pb2.GiveQueueRequest(name=name, holder=holder, apart=apart)
    return await on.api.queues.give_queue(CTX, request)


async def named(on: Stage) -> dict[str, str]:
    """Holders that were named, by root."""
    found = (await on.store.core.range(keys.HOLDERS, prefix_end(keys.HOLDERS))).items
    return {kv.key.removeprefix(keys.HOLDERS): decode(kv.value, HolderValue).replica for kv in found}


async def test_a_queue_is_given_with_its_cohort_or_apart_and_taken_back() -> None:
    async with stage() as on:
        await members(on, r0=True, r1=True)
        await apply(on, cohort("top"), cohort("low", "top"), queue("b", cohort="low"))
        root = f"queue.{(await get(on, 'b')).uid}"
        together = await give(on, "b", "r1")
        assert (together.apart, await named(on), (await get(on, "b")).holder) == (False, {"cohort.top": "r1"}, "r1")
        apart = await give(on, "b", "r0", apart=True)
        assert (apart.apart, await named(on)) == (True, {"cohort.top": "r1", root: "r0"})
        [applied] = await apply(on, queue("b", cohort="low", flavors=("h100",)))
        assert (applied.HasField("error"), (await get(on, "b")).apart) == (False, True), (
            "a file does not give it back"
        )
        back = await give(on, "b", "")
        assert (back.apart, await named(on)) == (False, {"cohort.top": "r1"})
        await give(on, "b", "r0", apart=True)
        await on.api.queues.delete_queue(CTX, queue_service_pb2.DeleteQueueRequest(name="b"))
        assert await named(on) == {"cohort.top": "r1"}


async def test_a_holder_must_be_a_replica_that_schedules() -> None:
    async with stage() as on:
        await members(on, r0=True, api=False)
        for name in ("r1", "api"):
            with pytest.raises(FailedPrecondition) as refused:
                await give(on, "research", name)
            assert (refused.value.reason, refused.value.path) == ("HOLDER_UNKNOWN", "holder")
        assert await named(on) == {}


async def test_a_queue_with_waiting_jobs_is_not_deleted_and_stays_open() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        with pytest.raises(FailedPrecondition) as refused:
            await on.api.queues.delete_queue(CTX, delete())
        answer = await on.submit(batch(spec("more")))
    assert refused.value.reason == "QUEUE_NOT_EMPTY"
    assert answer.jobs[0].id


async def test_an_empty_queue_is_deleted_once() -> None:
    async with stage() as on:
        await on.api.queues.delete_queue(CTX, delete("d1"))
        await on.api.queues.delete_queue(CTX, delete("d1"))
        with pytest.raises(NotFound):
            await on.api.queues.delete_queue(CTX, delete("d2"))
        answer = await on.submit(batch(spec()))
    assert answer.jobs[0].error.reason == "QUEUE_NOT_FOUND"


async def test_a_queue_that_is_made_again_is_another_one() -> None:
    async with stage() as on:
        old = await get(on, "research")
        await on.api.queues.delete_queue(CTX, delete())
        new = await on.api.queues.create_queue(CTX, create(queue_pb2.Queue(name="research")))
    assert old.uid != new.uid


async def test_a_deletion_that_broke_off_refuses_jobs_until_it_is_repeated_or_taken_back() -> None:
    async with stage() as on:
        on.store.rule = lambda txn: "lost" if any(isinstance(op, Delete) for op in txn.ops) else ""
        with pytest.raises(Unavailable):
            await on.api.queues.delete_queue(CTX, delete())
        on.store.rule = lambda txn: ""
        closed = await on.submit(batch(spec()))
        quota = queue_pb2.FlavorQuota(flavor="h100", nominal={GPU: 8})
        await on.api.queues.update_queue(
            CTX, queue_service_pb2.UpdateQueueRequest(queue=queue_pb2.Queue(name="research", quotas=[quota]))
        )
        opened = await on.submit(batch(spec()))
    assert (closed.jobs[0].error.reason, bool(opened.jobs[0].id)) == ("QUEUE_CLOSING", True)


@pytest.mark.parametrize("delay", range(12))
async def test_no_job_slips_into_a_queue_that_is_deleted(delay: int) -> None:
    async with stage() as on:

        async def later() -> bool:
            for _ in range(delay):
                await asyncio.sleep(0)
            try:
                await on.api.queues.delete_queue(CTX, delete())
            except FailedPrecondition:
                return False
            return True

        deleted, answer = await asyncio.gather(later(), on.submit(batch(spec())))
        gone = await on.count(keys.QUEUES) == 0
        states = await on.states()
    assert deleted == gone
    assert bool(answer.jobs[0].id) == bool(states) == (not gone)


# ---- the others, one by one ---------------------------------------------------------------------------------


async def test_a_flavor_is_made_changed_listed_and_removed() -> None:
    async with stage() as on:
        config = on.api.config
        made = await config.create_flavor(
            CTX, config_service_pb2.CreateFlavorRequest(flavor=config_pb2.Flavor(name="a100", order=-1))
        )
        changed = await config.update_flavor(
            CTX,
            config_service_pb2.UpdateFlavorRequest(
                flavor=config_pb2.Flavor(name="a100", order=3, revision=made.revision)
            ),
        )
        shown = await config.get_flavor(CTX, config_service_pb2.GetFlavorRequest(name="a100"))
        listed = await config.list_flavors(CTX, config_service_pb2.ListFlavorsRequest())
        await config.delete_flavor(CTX, config_service_pb2.DeleteFlavorRequest(name="a100"))
        with pytest.raises(NotFound):
            await config.get_flavor(CTX, config_service_pb2.GetFlavorRequest(name="a100"))
    assert (changed.order, shown) == (3, changed)
    assert [f.name for f in listed.flavors] == ["h100", "a100"]


async def test_what_others_name_is_not_removed() -> None:
    async with stage() as on:
        await apply(on, cohort("top"), cohort("low", "top"), queue("b", cohort="low"))
        for call in (
            on.api.config.delete_flavor(CTX, config_service_pb2.DeleteFlavorRequest(name="h100")),
            on.api.config.delete_cohort(CTX, config_service_pb2.DeleteCohortRequest(name="top")),
            on.api.config.delete_cohort(CTX, config_service_pb2.DeleteCohortRequest(name="low")),
        ):
            with pytest.raises(FailedPrecondition) as refused:
                await call
            assert refused.value.reason == "IN_USE"


async def test_a_priority_class_may_be_removed_and_only_one_is_the_default() -> None:
    async with stage() as on:
        config = on.api.config
        wanted = config_pb2.PriorityClass(name="other", value=1, default=True)
        with pytest.raises(InvalidArgument) as refused:
            await config.create_priority_class(
                CTX, config_service_pb2.CreatePriorityClassRequest(priority_class=wanted)
            )
        await config.delete_priority_class(CTX, config_service_pb2.DeletePriorityClassRequest(name="normal"))
        made = await config.create_priority_class(
            CTX, config_service_pb2.CreatePriorityClassRequest(priority_class=wanted)
        )
        listed = await config.list_priority_classes(CTX, config_service_pb2.ListPriorityClassesRequest())
        answer = await on.submit(batch(spec()))
        [state] = (await on.states()).values()
    assert (refused.value.reason, made.default, state.priority) == ("DEFAULT_EXISTS", True, 1)
    assert [c.name for c in listed.priority_classes] == ["urgent", "other"]
    assert answer.jobs[0].id


async def test_cohorts_are_a_tree() -> None:
    async with stage() as on:
        await apply(on, cohort("a"), cohort("b", "a"))
        with pytest.raises(InvalidArgument) as refused:
            await on.api.config.update_cohort(
                CTX, config_service_pb2.UpdateCohortRequest(cohort=config_pb2.Cohort(name="a", parent="b"))
            )
        listed = await on.api.config.list_cohorts(CTX, config_service_pb2.ListCohortsRequest())
    assert (refused.value.reason, [c.name for c in listed.cohorts]) == ("COHORT_CYCLE", ["a", "b"])


# ---- apply --------------------------------------------------------------------------------------------------


async def test_a_file_may_name_its_objects_in_any_order_and_a_second_time_changes_nothing() -> None:
    async with stage() as on:
        file = (queue("b", cohort="low", flavors=("a100",)), cohort("low", "top"), cohort("top"), flavor("a100"))
        first = await apply(on, *file)
        before = (await on.store.core.read([])).revision
        again = await apply(on, *file)
        after = await on.store.core.range(keys.QUEUES, keys.QUEUES + "~")
    assert [r.outcome for r in first] == [1, 1, 1, 1]
    assert [r.outcome for r in again] == [3, 3, 3, 3]
    assert all(kv.mod_revision <= before for kv in after.items)


async def test_an_apply_changes_what_differs_and_keeps_the_rest_of_a_queue() -> None:
    async with stage() as on:
        await on.api.queues.hold_queue(CTX, queue_service_pb2.HoldQueueRequest(name="research"))
        before = await get(on, "research")
        [result] = await apply(on, queue("research", flavors=("h100",)))
        after = await get(on, "research")
    assert (result.outcome, after.uid, after.held) == (2, before.uid, True)
    assert dict(after.quotas[0].nominal) == {GPU: 8}


async def test_bad_objects_take_along_what_rests_on_them_and_nothing_else() -> None:
    async with stage() as on:
        results = await apply(
            on,
            cohort("low", "No"),
            cohort("lower", "low"),
            queue("b", cohort="lower"),
            flavor("a100"),
            ConfigObject(),
        )
    assert [r.error.reason for r in results] == [
        "NAME_INVALID",
        "COHORT_UNKNOWN",
        "COHORT_UNKNOWN",
        "",
        "OBJECT_EMPTY",
    ]
    assert [r.outcome for r in results] == [0, 0, 0, 1, 0]
    assert results[1].error.path == "objects[1].cohort.parent"


async def test_an_atomic_file_with_one_bad_object_changes_nothing() -> None:
    async with stage() as on:
        results = await apply(on, flavor("a100"), queue("b", flavors=("x",)), atomic=True)
        assert await on.count(keys.FLAVORS) == 1
    assert [(r.outcome, r.error.reason) for r in results] == [(0, ""), (0, "FLAVOR_UNKNOWN")]


async def test_only_checking_changes_nothing() -> None:
    async with stage() as on:
        results = await apply(on, flavor("a100"), flavor("h100", 7), validate_only=True)
        assert await on.count(keys.FLAVORS) == 1
    assert [r.outcome for r in results] == [1, 2]


@pytest.mark.parametrize("fate", ["", "lost", "silent", "late"])
async def test_a_large_file_is_applied_whole(fate: str) -> None:
    async with stage() as on:
        fates = ["", "", fate]
        on.store.rule = lambda txn: fates.pop() if fates else ""
        results = await apply(on, *(queue(f"q{i:03d}") for i in range(300)), flavor("a100"))
        await on.store.deliver()
        assert await on.count(keys.QUEUES) == 301
    outcomes = [int(r.outcome) for r in results]
    assert outcomes.count(1) >= 301 - 127  # what a lost answer had made is found unchanged
    assert set(outcomes) <= {1, 3}


async def test_a_repeated_apply_gives_the_same_answer() -> None:
    async with stage() as on:
        request = objects()
        request.request_id = "a1"
        request.objects[1].flavor.order = 4
        first = await on.api.config.apply(CTX, request)
        await on.api.config.update_flavor(
            CTX, config_service_pb2.UpdateFlavorRequest(flavor=config_pb2.Flavor(name="h100", order=9))
        )
        again = await on.api.config.apply(CTX, request)
        kept = await on.api.config.get_flavor(CTX, config_service_pb2.GetFlavorRequest(name="h100"))
    assert (again, kept.order) == (first, 9)


@pytest.mark.parametrize("fate", ["lost", "silent", "late"])
async def test_a_write_whose_outcome_is_unknown_is_settled(fate: str) -> None:
    async with stage() as on:
        fates = [fate]
        on.store.rule = lambda txn: fates.pop() if fates else ""
        made = await on.api.queues.create_queue(CTX, create(queue_pb2.Queue(name="b"), "r1"))
        await on.store.deliver()
        assert (await get(on, "b")).uid == made.uid
        assert sum(isinstance(op, Put) and op.key == "queues/b" for txn in on.store.txns for op in txn.ops) <= 2
