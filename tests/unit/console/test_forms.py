"""What the page is sent: figures by column, long things cut, nothing that is not for everybody's eyes."""

from hanse.api.v1 import event_pb2, explanation_pb2, job_pb2, job_spec_pb2, pool_pb2, queue_pb2, server_service_pb2
from hanse.console import forms
from hanse.console.limits import CELLS_PER_POOL_MAX, DEGRADED_MAX, POOLS_EXPLAINED_MAX, RACKS_MAX, RANKS_SHOWN_MAX


def test_a_pool_is_a_row_with_the_word_that_matters_most() -> None:
    pool = pool_pb2.Pool(name="oslo", gpus=64, free_gpus=8, health=pool_pb2.POOL_HEALTH_HEALTHY, held_gangs=2)
    row = dict(zip(forms.POOL_COLUMNS, forms.pool_row(pool, 7), strict=True))
    assert (row["name"], row["state"], row["gpus"], row["free"], row["held"], row["version"]) == (
        *("oslo", "healthy", 64, 8, 2),
        7,
    )
    pool.cordoned = True
    assert forms.pool_state(pool) == "cordoned"
    pool.drain.since_ms = 5
    assert forms.pool_state(pool) == "draining"
    pool.health = pool_pb2.POOL_HEALTH_STALE
    assert forms.pool_state(pool) == "stale"
    pool.leave.force = True
    assert forms.pool_state(pool) == "leaving"


def test_a_picture_beyond_the_limit_is_cut_and_says_so() -> None:
    row = pool_pb2.ShapeRow(domains=1, level="block", cell_level="rack")
    row.cells.extend(pool_pb2.ShapeCell(domains=1, hosts=4, gpus=32) for _ in range(CELLS_PER_POOL_MAX // 2))
    form = forms.shape_form(pool_pb2.PoolShape(rows=[row, row, row]))
    rows = form["rows"]
    assert isinstance(rows, list)
    assert (len(rows), form["cut"], form["cell_level"]) == (2, 1, "rack")


def test_a_job_is_sent_without_its_manifest_its_environment_and_its_nodes() -> None:
    job = job_pb2.Job(id="x", name="<b>bold</b>")
    job.spec.manifest.kind, job.spec.manifest.text = "Job", "secret: hunter2"
    job.spec.companions.add(kind="ConfigMap", text="hunter2")
    job.spec.pod_sets.add(count=2).template.env.add(name="TOKEN", value="hunter2")
    job.status.nodes.add(name="n1")
    form = forms.job_form(job)
    assert "hunter2" not in str(form)
    assert (form["name"], form["nodes"]) == ("<b>bold</b>", [])
    assert job.spec.manifest.text == "secret: hunter2"  # the API's own message is left alone


def test_the_size_of_a_job_is_that_of_its_spec_else_of_its_places() -> None:
    pods = job_spec_pb2.PodSet(count=4, resources={"nvidia.com/gpu": 8, "cpu": 64_000})
    with_spec = job_pb2.Job(spec=job_spec_pb2.JobSpec(pod_sets=[pods]))
    row = dict(zip(forms.JOB_COLUMNS, forms.job_row(with_spec), strict=True))
    assert (row["pods"], row["gpus"]) == (4, 32)
    bare = job_pb2.Job(status=job_pb2.JobStatus(placement=[job_pb2.Placement(pool="oslo", pods=3)]))
    row = dict(zip(forms.JOB_COLUMNS, forms.job_row(bare), strict=True))
    assert (row["pods"], row["pools"]) == (3, ["oslo"])


def test_places_are_told_by_rack_in_the_order_of_ranks_and_hosts_up_to_a_limit() -> None:
    job = job_pb2.Job()
    for rank in range(2 * RANKS_SHOWN_MAX):
        job.status.nodes.add(
            name=f"n{rank}", ranks=[rank], path=["b0", f"r{1 - rank // RANKS_SHOWN_MAX}"], pool="oslo"
        )
    form = forms.placement_form(job)
    assert form["racks"] == [
        ["oslo", ["b0", "r1"], "", RANKS_SHOWN_MAX, RANKS_SHOWN_MAX, f"0-{RANKS_SHOWN_MAX - 1}"],
        ["oslo", ["b0", "r0"], "", RANKS_SHOWN_MAX, RANKS_SHOWN_MAX, f"{RANKS_SHOWN_MAX}-{2 * RANKS_SHOWN_MAX - 1}"],
    ]
    assert isinstance(form["nodes"], list)
    assert (len(form["nodes"]), form["nodes_left_out"]) == (RANKS_SHOWN_MAX, RANKS_SHOWN_MAX)


def test_racks_beyond_the_limit_are_counted() -> None:
    job = job_pb2.Job()
    for rack in range(RACKS_MAX + 3):
        job.status.nodes.add(name=f"n{rack}", ranks=[rack], path=[f"r{rack}"])
    assert forms.placement_form(job)["left_out"] == 3


def test_an_explanation_keeps_the_nearest_pools_and_counts_the_rest() -> None:
    pools = [explanation_pb2.PoolExplanation(pool=f"p{i}") for i in range(POOLS_EXPLAINED_MAX + 5)]
    form = forms.explanation_form(explanation_pb2.Explanation(answer="it waits", reason="SHAPE", pools=pools))
    assert isinstance(form["pools"], list)
    assert (len(form["pools"]), form["left_out"], form["answer"]) == (POOLS_EXPLAINED_MAX, 5, "it waits")
    assert form["prose"]
    assert forms.prose_of("OF_A_NEWER_VERSION") == ""


def test_a_queue_has_its_share_and_what_it_uses_by_flavor() -> None:
    queue = queue_pb2.Queue(
        name="research",
        quotas=[queue_pb2.FlavorQuota(flavor="h100", nominal={"nvidia.com/gpu": 64, "cpu": 9})],
        status=queue_pb2.QueueStatus(
            pending_jobs=3, used=[queue_pb2.FlavorUse(flavor="b200", used={"nvidia.com/gpu": 8})]
        ),
    )
    form = forms.queue_form(queue)
    assert (form["flavors"], form["pending"]) == ([["b200", 0, 8], ["h100", 64, 0]], 3)


def test_the_status_is_bounded_whatever_is_degraded() -> None:
    status = server_service_pb2.FederationStatus(
        degraded=[f"pool p{i} is stale" for i in range(DEGRADED_MAX + 9)],
        roots=[server_service_pb2.RootStatus(root=f"r{i}", alive=i % 2 == 0) for i in range(4)],
        pools=[
            server_service_pb2.PoolStatus(name=f"p{i}", replica="r0" if i else "", summary_age_ms=i - 1)
            for i in range(5)
        ],
    )
    form = forms.status_form(status)
    assert isinstance(form["degraded"], list)
    assert (len(form["degraded"]), form["degraded_left_out"]) == (DEGRADED_MAX, 9)
    assert (form["agents"], form["pools"], form["ages"]) == (4, 5, [2, 3])
    assert form["loose"] == [["r1", ""], ["r3", ""]]


def test_an_event_is_a_row_with_its_kind_as_a_word() -> None:
    event = event_pb2.Event(at_ms=5, kind=event_pb2.EVENT_KIND_BOUND, job="j", name="train", pool="oslo", attempt=2)
    assert forms.event_row(event, 9) == [9, 5, "BOUND", "j", "train", "oslo", 2, "", ""]
