"""What a tenant's questions read, and what their answers leave out."""

from dataclasses import replace

import pytest

from hanse.api.v1 import job_service_pb2, queue_pb2, queue_service_pb2, server_service_pb2
from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.terms import QueueTerms
from hanse.apiserver.access.verbs import Role
from hanse.apiserver.context import CallContext
from hanse.apiserver.ports import Explanation, FlavorView, PoolVerdict, Suggestion
from hanse.apiserver.seen import hidden_pools, seen_by, seen_pools, seen_status
from hanse.model.errors import NotFound
from hanse.model.ids import FlavorName, PoolName
from hanse.store import keys
from tests.unit.apiserver.stage import CTX, Stage, batch, pool, spec, stage

A100 = FlavorName("a100")


def calls(*queues: str, terms: dict[str, QueueTerms] | None = None) -> CallContext:
    """Somebody who submits to some queues."""
    binding = Binding(Role.SUBMITTER, frozenset({"eve"}), frozenset(), queues)
    return CallContext(principal="eve", access=Policy((binding,), terms or {}).access("eve"))


class Watched:
    """Notes which keys are read."""

    def __init__(self, on: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        read, scan = on.store.read, on.store.range

        async def noted_read(wanted: list[str], **more: object) -> object:
            self.seen.extend(wanted)
            return await read(wanted)

        async def noted_range(start: str, end: str, **more: object) -> object:
            page = await scan(start, end, **more)  # type: ignore[arg-type]
            self.seen.extend(kv.key for kv in page.items)
            return page

        monkeypatch.setattr(on.store, "read", noted_read)
        monkeypatch.setattr(on.store, "range", noted_range)


async def add_queue(on: Stage, name: str) -> str:
    queue = queue_pb2.Queue(name=name, quotas=[queue_pb2.FlavorQuota(flavor="h100")])
    made = await on.api.queues.create_queue(CTX, queue_service_pb2.CreateQueueRequest(queue=queue))
    return made.uid


@pytest.mark.parametrize("queues", [("other",), ("other", "third"), ("o*",)])
async def test_a_list_reads_nothing_of_what_others_have(
    queues: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage() as on:
        await add_queue(on, "other")
        await on.submit(batch(*(spec(f"theirs-{i}") for i in range(100))))
        await on.submit(batch(*(spec(f"mine-{i}", queue="other") for i in range(3))))
        theirs = (await on.api.queues.get_queue(CTX, queue_service_pb2.GetQueueRequest(name="research"))).uid
        watched = Watched(on, monkeypatch)
        listed = await on.api.jobs.list_jobs(calls(*queues), job_service_pb2.ListJobsRequest(page_size=2))
        more = job_service_pb2.ListJobsRequest(page_size=2, page_token=listed.next_page_token)
        rest = await on.api.jobs.list_jobs(calls(*queues), more)
        assert len(listed.jobs) + len(rest.jobs) == 3
        snapshot = on.api.jobs.watch_jobs(calls(*queues), job_service_pb2.WatchJobsRequest(snapshot=True))
        first = await anext(snapshot)
        assert (len(first.events), first.synced) == (3, True)
        assert not [key for key in watched.seen if theirs in key]


async def test_a_page_token_of_somebody_else_leads_to_nothing_of_theirs() -> None:
    async with stage() as on:
        await add_queue(on, "other")
        await on.submit(batch(*(spec(f"theirs-{i}") for i in range(4))))
        theirs = await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(page_size=1))
        stolen = job_service_pb2.ListJobsRequest(page_size=1, page_token=theirs.next_page_token)
        assert not (await on.api.jobs.list_jobs(calls("other"), stolen)).jobs


@pytest.mark.parametrize("text", ["{}", "theirs", "th"])
async def test_a_job_of_others_costs_the_same_reads_as_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reads are what takes time: the same ones, whether it exists or not."""
    async with stage() as on:
        await add_queue(on, "other")
        job = (await on.submit(batch(spec("theirs")))).jobs[0].id
        watched = Watched(on, monkeypatch)
        reads = []
        for asked in (text.format(job), "zzzzzzzz-0123456789abcdef" if text == "{}" else "nothing"[: len(text)]):
            watched.seen.clear()
            with pytest.raises(NotFound):
                await on.api.jobs.get_job(calls("other"), job_service_pb2.GetJobRequest(job=asked))
            reads.append(list(watched.seen))
        assert reads[0] == reads[1] == [keys.queue("other")]  # type: ignore[arg-type]


def test_a_pool_is_seen_by_a_flavor_and_only_that_flavor_of_it() -> None:
    both = replace(
        pool("both", 1, 2),
        flavors=(*pool("both", 1, 2).flavors, FlavorView(A100, 4, 32, 16, 2)),
        gpus=48,
        gangs=9,
    )
    views = [both, pool("oslo", 1, 1), pool("rome", 1, 1, flavor=A100)]
    eve = calls("other", terms={"other": QueueTerms(flavors=("h100",))}).access
    told = seen_pools(eve, views)
    assert [view.name for view in told] == ["both", "oslo"]
    assert ([f.name for f in told[0].flavors], told[0].gpus, told[0].gangs, told[0].shape) == (["h100"], 16, 0, None)
    assert hidden_pools(eve, views) == {"rome"}
    assert seen_pools(CTX.access, views) == views


def test_an_explanation_names_no_pool_that_is_not_seen() -> None:
    verdicts = tuple(PoolVerdict(PoolName(name), fits=False) for name in ("oslo", "rome"))
    helps = (
        Suggestion("uncordon rome/b1", "starts now"),
        Suggestion("15 racks", "starts in oslo"),
        Suggestion("x", "rome."),
    )
    told = seen_by(Explanation("waits", pools=verdicts, helps=helps), {PoolName("rome")})
    assert [verdict.pool for verdict in told.pools] == ["oslo"]
    assert [one.change for one in told.helps] == ["15 racks"]


def test_the_federations_standing_is_told_without_replicas_and_roots() -> None:
    whole = server_service_pb2.FederationStatus(
        server=server_service_pb2.ServerInfo(
            version="1", replicas=[server_service_pb2.Replica(id="r0", address="10.0.0.1:1")]
        ),
        replicas=[server_service_pb2.ReplicaStatus(id="r0", pending_jobs=7)],
        roots=[server_service_pb2.RootStatus(root="cohort.secret")],
        pools=[
            server_service_pb2.PoolStatus(name="oslo", state="stale", gangs=3, replica="r0"),
            server_service_pb2.PoolStatus(name="rome", state="stale"),
        ],
        degraded=["root cohort.secret is held by nobody", "pool rome is stale"],
    )
    views = [pool("oslo", 1, 1), pool("rome", 1, 1, flavor=A100)]
    eve = calls("other", terms={"other": QueueTerms(flavors=("h100",))}).access
    told = seen_status(eve, whole, views)
    assert "secret" not in str(told)
    assert "rome" not in str(told)
    assert "r0" not in str(told)
    assert [(one.name, one.gangs) for one in told.pools] == [("oslo", 0)]
    assert list(told.degraded) == ["pool oslo is stale"]
