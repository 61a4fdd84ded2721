"""Fleet files: what they mean, how they are refused, and what the demo's fleet promises."""

import json
import time
from pathlib import Path

import jsonschema
import pytest

from hanse.kit.clock import SystemClock
from hanse.model.devices import DeviceGroup
from hanse.model.errors import InvalidArgument, NotFound
from hanse.model.resources import NVIDIA_GPU, PODS
from hanse.model.selectors import Effect, Taint
from hanse.simcluster.build import build_cluster
from hanse.simcluster.engine import Engine
from hanse.simcluster.nodes import NodeTable
from hanse.up.fleet import DEMO_FLEET, Fleet, PoolSpec, load_fleet, read_fleet
from hanse.up.fleet_reference import PAGE, SCHEMA, reference_page, schema_text
from hanse.up.fleet_text import only_document, plain
from hanse.up.link_costs import links_of
from tests.arch.tree import ROOT

REFERENCE = ROOT / "docs/reference"
LAB = """
flavors: [{name: h100, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}, {name: rest}]
queues: [{name: default, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 64}}]}]
priority_classes: [{name: normal, value: 0, default: true}]
pools:
  - name: lab
    region: here
    dialect: gke
    cost: 2.125
    labels: {tier: test}
    run_s: 30
    groups:
      - gpu: h100
        levels: [{name: block, count: 2}, {name: rack, count: 3}, {name: host, count: 12}]
        resources: {rdma/hca: 8}
        labels: {team: a}
        taints: [{key: gpu, effect: NoSchedule}]
"""


def pool_with(groups: str, **more: str) -> str:
    """A fleet of one pool with these lines of groups."""
    fields = "".join(f"    {name}: {value}\n" for name, value in more.items())
    return f"pools:\n  - name: lab\n{fields}    groups:\n{groups}"


def only_pool(text: str) -> PoolSpec:
    (pool,) = read_fleet(text).pools
    return pool


def test_a_pool_is_understood() -> None:
    pool = only_pool(LAB)
    assert (pool.name, pool.region, pool.cost, pool.dialect) == ("lab", "here", 2125, "gke")
    assert (pool.labels, pool.address) == ({"tier": "test"}, "")
    assert [(level.alias, level.key) for level in pool.levels] == [
        ("block", "cloud.google.com/gce-topology-block"),
        ("rack", "cloud.google.com/gce-topology-subblock"),
        ("host", "cloud.google.com/gce-topology-host"),
    ]
    assert pool.cluster.timing.run == 30_000


def test_the_generic_dialect_names_any_level() -> None:
    text = pool_with("      - {gpu: a100, levels: [{name: shelf, count: 2}, {name: host, count: 3}]}\n")
    pool = only_pool(text)
    assert [(level.alias, level.key) for level in pool.levels] == [
        ("shelf", "cloud.provider.com/topology-shelf"),
        ("host", "kubernetes.io/hostname"),
    ]
    with pytest.raises(InvalidArgument, match='dialect gke has no label for "shelf"; set key'):
        read_fleet(text.replace("    groups:", "    dialect: gke\n    groups:"))


def test_nodes_carry_what_the_vendor_writes() -> None:
    table = NodeTable(only_pool(LAB).cluster)
    assert len(table) == 72
    assert (table.names[0], table.names[-1]) == ("lab-b0-r0-h00", "lab-b1-r2-h11")
    assert table.paths[-1] == ("b1", "r2", "h11")
    labels = dict(table.labels[-1])
    assert labels["cloud.google.com/gce-topology-subblock"] == "r2"
    assert labels["kubernetes.io/hostname"] == "lab-b1-r2-h11"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["node.kubernetes.io/instance-type"] == "a3-megagpu-8g"
    assert (labels["topology.kubernetes.io/region"], labels["team"]) == ("here", "a")
    offered = table.allocatable_of(5)
    assert (offered[NVIDIA_GPU], offered["rdma/hca"], offered["cpu"], offered[PODS]) == (8, 8, 192_000, 110)
    assert table.taints(5) == (Taint("gpu", "", Effect.NO_SCHEDULE),)


def test_operators_sections_are_read_as_hanse_apply_reads_them() -> None:
    fleet = read_fleet(LAB)
    assert [(f.name, f.order) for f in fleet.flavors] == [("h100", 0), ("rest", 1)]
    (queue,) = fleet.queues
    assert queue.quotas[0].nominal[NVIDIA_GPU] == 64
    assert fleet.priority_classes[0].default
    assert fleet.cohorts == ()
    assert len(fleet.resources) == 4


def test_a_tree_may_be_ragged() -> None:
    table = NodeTable(
        only_pool(
            pool_with("      - {levels: [{name: block}, {name: rack}, {name: host}], sizes: [[2, 1], [3]]}\n")
        ).cluster
    )
    assert ["/".join(path) for path in table.paths] == [
        *("b0/r0/h0", "b0/r0/h1", "b0/r1/h0"),
        *("b1/r0/h0", "b1/r0/h1", "b1/r0/h2"),
    ]


def test_groups_of_other_depth_share_a_pool() -> None:
    pool = only_pool(
        pool_with(
            "      - {name: h, gpu: h100, levels: [{name: block, count: 2}, {name: rack, count: 2},"
            " {name: host, count: 4}]}\n"
            "      - {name: g, gpu: gb200, levels: [{name: nvlink, count: 2}, {name: host, count: 18}]}\n"
        )
    )
    assert [level.alias for level in pool.levels] == ["block", "rack", "nvlink", "host"]
    table = NodeTable(pool.cluster)
    assert (table.names[0], table.names[-1]) == ("lab-h-b0-r0-h0", "lab-g-n1-h17")
    assert table.allocatable_of(0)[NVIDIA_GPU] == 8
    assert table.allocatable_of(len(table) - 1)[NVIDIA_GPU] == 4
    assert "cloud.provider.com/topology-rack" not in table.labels[-1]


def test_hosts_without_gpus_are_hosts() -> None:
    table = NodeTable(only_pool(pool_with("      - levels: [{name: host, count: 3}]\n")).cluster)
    assert table.names == ["lab-h0", "lab-h1", "lab-h2"]
    assert table.allocatable_of(0)["cpu"] == 64_000
    assert NVIDIA_GPU not in table.allocatable_of(0)


def test_a_level_may_have_any_name_and_label() -> None:
    pool = only_pool(
        pool_with("      - levels: [{name: hall, key: dc/hall, count: 2, prefix: hall}, {name: host, count: 1}]\n")
    )
    assert (pool.levels[0].alias, pool.levels[0].key) == ("hall", "dc/hall")
    assert NodeTable(pool.cluster).names == ["lab-hall0-h0", "lab-hall1-h0"]


LEVELS = "levels: [{name: rack, count: 2}, {name: host, count: 2}]"
REFUSED = {
    "unknown field at the top": ("poools: []\npools: []", "poools", 1, 'did you mean "pools"'),
    "unknown field of a pool": (
        pool_with(f"      - {{{LEVELS}}}\n", regoin="x"),
        "pools[0].regoin",
        3,
        'did you mean "region"',
    ),
    "unknown field of a level": (
        pool_with("      - levels: [{name: host, cuont: 2}]\n"),
        "pools[0].groups[0].levels[0].cuont",
        4,
        'did you mean "count"',
    ),
    "no pools": ("flavors: []\n", "pools", 0, "missing"),
    "empty pools": ("pools: []\n", "pools", 1, "at least 1"),
    "a name that is none": ("pools: [{name: Lab_1, groups: []}]", "pools[0].name", 1, "Lab_1"),
    "an unknown dialect": (pool_with(f"      - {{{LEVELS}}}\n", dialect="gek"), "pools[0].dialect", 3, '"gke"'),
    "an unknown model": (
        pool_with(f"      - {{gpu: h10, {LEVELS}}}\n"),
        "pools[0].groups[0].gpu",
        4,
        'did you mean "h100"',
    ),
    "a level without a label": (
        pool_with("      - levels: [{name: pod, count: 2}, {name: host, count: 2}]\n", dialect="gke"),
        "pools[0].groups[0].levels[0]",
        5,
        "set key",
    ),
    "a level without a count": (
        pool_with("      - levels: [{name: rack}, {name: host, count: 2}]\n"),
        "pools[0].groups[0].levels[0].count",
        4,
        "missing",
    ),
    "counts and sizes": (pool_with(f"      - {{{LEVELS}, sizes: [2]}}\n"), "pools[0].groups[0].sizes", 4, "one of"),
    "sizes that are too flat": (
        pool_with("      - {levels: [{name: block}, {name: rack}, {name: host}], sizes: [2, 3]}\n"),
        "pools[0].groups[0].sizes[0]",
        4,
        "list",
    ),
    "sizes that are too deep": (
        pool_with("      - {levels: [{name: rack}, {name: host}], sizes: [[2], 3]}\n"),
        "pools[0].groups[0].sizes[0]",
        4,
        "number of hosts",
    ),
    "a negative count": (
        pool_with("      - levels: [{name: host, count: -2}]\n"),
        "pools[0].groups[0].levels[0].count",
        4,
        "-2",
    ),
    "a huge tree": (
        pool_with("      - levels: [{name: block, count: 60000}, {name: host, count: 60000}]\n"),
        "pools[0].groups[0].levels",
        4,
        "3,600,000,000 nodes",
    ),
    "too many nodes in two groups": (
        pool_with(
            "      - {name: a, levels: [{name: host, count: 40000}]}\n"
            "      - {name: b, levels: [{name: host, count: 40000}]}\n"
        ),
        "pools[0]",
        2,
        "80,000 nodes",
    ),
    "a fraction above one": (
        pool_with(f"      - {{{LEVELS}, busy: {{fraction: 1.5}}}}\n"),
        "pools[0].groups[0].busy.fraction",
        4,
        "1.5",
    ),
    "a text where a number belongs": (
        pool_with(f"      - {{{LEVELS}, busy: {{fraction: lots}}}}\n"),
        "pools[0].groups[0].busy.fraction",
        4,
        "number",
    ),
    "a quantity that is none": (
        pool_with(f"      - {{{LEVELS}, resources: {{rdma/hca: many}}}}\n"),
        "pools[0].groups[0].resources.rdma/hca",
        4,
        "many",
    ),
    "a resource that has a field": (
        pool_with(f"      - {{{LEVELS}, resources: {{cpu: 3}}}}\n"),
        "pools[0].groups[0].resources.cpu",
        4,
        "field of its own",
    ),
    "two pools of one name": (
        f"pools:\n  - {{name: a, groups: [{{{LEVELS}}}]}}\n  - {{name: a, groups: [{{{LEVELS}}}]}}\n",
        "pools[1]",
        3,
        "already",
    ),
    "two groups of one prefix": (
        pool_with(f"      - {{node_prefix: x, {LEVELS}}}\n      - {{node_prefix: x, {LEVELS}}}\n"),
        "pools[0]",
        2,
        "same names",
    ),
    "levels in contradicting order": (
        pool_with(
            "      - {name: a, levels: [{name: block, count: 1}, {name: rack, count: 1}, {name: host, count: 1}]}\n"
            "      - {name: b, levels: [{name: rack, count: 1}, {name: block, count: 1}, {name: host, count: 1}]}\n"
        ),
        "pools[0].groups[1].levels",
        5,
        "another order",
    ),
    "two levels of one name": (
        pool_with("      - levels: [{name: rack, count: 1}, {name: rack, count: 1}]\n"),
        "pools[0].groups[0].levels",
        4,
        "one name",
    ),
    "a queue with an unknown field": (
        f"queues: [{{name: q, quota: 3}}]\npools: [{{name: a, groups: [{{{LEVELS}}}]}}]",
        "queues[0].quota",
        1,
        "quotas",
    ),
    "two flavors of one name": (
        f"flavors: [{{name: a}}, {{name: a}}]\npools: [{{name: a, groups: [{{{LEVELS}}}]}}]",
        "flavors[1]",
        1,
        "twice",
    ),
    "two documents": ("pools: []\n---\npools: []\n", "", 0, "2 documents"),
    "a list": ("- pools\n", "", 0, "mapping of fields"),
    "broken YAML": ("pools: [\n", "", 1, "not YAML"),
    "a key that is given twice": ("pools: []\npools: []\n", "", 2, "twice"),
    "a bomb": (
        "a: &a [1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdef", "bcdefg", strict=True)),
        "",
        None,
        "aliases",
    ),
}


@pytest.mark.parametrize(("text", "path", "line", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_is_refused_with_path_and_line(text: str, path: str, line: int | None, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_fleet(text)
    error = caught.value
    assert (error.path, words in error.message, "\n" in str(error)) == (path, True, False), str(error)
    assert line is None or error.line == line


def test_a_file_is_named_in_its_refusal(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("poools: []\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"fleet\.yaml:1: poools: no field"):
        load_fleet(file)
    with pytest.raises(InvalidArgument, match=r"cannot read .*missing\.yaml: No such file"):
        load_fleet(tmp_path / "missing.yaml")


def test_a_pool_that_is_not_there_is_told() -> None:
    fleet = read_fleet(LAB)
    assert fleet.pool("lab").name == "lab"
    with pytest.raises(NotFound, match='did you mean "lab"'):
        fleet.pool("lap")


# The demo's fleet


@pytest.fixture(scope="module")
def demo() -> Fleet:
    return load_fleet()


@pytest.fixture(scope="module")
def engines(demo: Fleet) -> dict[str, Engine]:
    return {pool.name: Engine(pool.cluster, uid=pool.name, now_ms=0) for pool in demo.pools}


def free_gpus(engine: Engine) -> int:
    return int(engine.nodes.gpus_of(engine.nodes.free).sum())


def whole_hosts(engine: Engine) -> int:
    table = engine.nodes
    return int((table.gpus_of(table.free) == table.gpus_of(table.allocatable)).sum())


def test_the_demo_fleet_is_large_and_of_many_vendors(demo: Fleet, engines: dict[str, Engine]) -> None:
    assert len(demo.pools) >= 4
    assert len({pool.dialect for pool in demo.pools}) >= 4
    assert len({table.labels[0]["nvidia.com/gpu.product"] for table in (e.nodes for e in engines.values())}) >= 3
    assert sum(len(engine.nodes) for engine in engines.values()) > 10_000


def test_the_demo_fleet_is_about_sixty_per_cent_busy(engines: dict[str, Engine]) -> None:
    total = sum(int(e.nodes.gpus_of(e.nodes.allocatable).sum()) for e in engines.values())
    busy = 1 - sum(free_gpus(e) for e in engines.values()) / total
    assert 0.57 < busy < 0.63
    assert all(len(engine.foreign) > 1 for engine in engines.values())


def test_nodes_of_the_demo_fleet_offer_what_the_example_asks_for(engines: dict[str, Engine]) -> None:
    for engine in engines.values():
        assert engine.nodes.allocatable_of(0)["rdma/hca"] > 0
        assert engine.nodes.labels[0]["feature.node.kubernetes.io/pci-10de.present"] == "true"


def test_the_demo_queue_has_quota_for_8192_gpus(demo: Fleet) -> None:
    queues = {str(queue.name): queue for queue in demo.queues}
    assert {"high-priority-training", "default", "research"} <= set(queues)
    quotas = queues["high-priority-training"].quotas
    assert sum(quota.nominal[NVIDIA_GPU] for quota in quotas) == 8192


def test_a_pool_of_the_demo_holds_512_hosts_after_224_are_taken(demo: Fleet, engines: dict[str, Engine]) -> None:
    allowed = {
        quota.flavor for queue in demo.queues if queue.name == "high-priority-training" for quota in queue.quotas
    }
    flavors = [flavor for flavor in demo.flavors if flavor.name in allowed]
    fitting = [
        engine
        for engine in engines.values()
        if whole_hosts(engine) >= 224 + 512
        and any(all(r.matches(engine.nodes.labels[0]) for r in flavor.requirements) for flavor in flavors)
    ]
    assert fitting


def test_a_pool_of_the_demo_has_gpus_in_sum_and_not_in_shape(engines: dict[str, Engine]) -> None:
    assert any(free_gpus(e) > 4096 and whole_hosts(e) < 128 for e in engines.values())


def test_a_pool_of_12_000_nodes_is_there_at_once() -> None:
    pool = only_pool(
        pool_with(
            "      - {gpu: h100, levels: [{name: block, count: 24}, {name: rack, count: 20},"
            " {name: host, count: 25}], busy: {fraction: 0.6, pattern: scattered}}\n"
        )
    )
    begun = time.process_time()
    cluster = build_cluster(pool.cluster, SystemClock())
    assert len(cluster.engine.nodes) == 12_000
    assert time.process_time() - begun < 1.5


# The reference


def test_the_reference_is_what_the_models_say() -> None:
    remedy = "run: python -m hanse.up.fleet_reference docs/reference"
    assert (REFERENCE / PAGE).read_text(encoding="utf-8") == reference_page(), remedy
    assert (REFERENCE / SCHEMA).read_text(encoding="utf-8") == schema_text(), remedy


@pytest.mark.parametrize("text", [LAB, (ROOT / "api/hanse/up" / DEMO_FLEET).read_text(encoding="utf-8")])
def test_the_schema_accepts_what_is_accepted(text: str) -> None:
    jsonschema.validate(plain(only_document(text)), json.loads(schema_text()))


def test_the_schema_refuses_what_is_unknown() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"pools": [], "poools": []}, json.loads(schema_text()))


DEVICES = "      - {gpu: h100, levels: [{name: host, count: 2}], devices: [%s]}\n"


def test_hosts_may_tell_which_gpus_are_near_each_other() -> None:
    told = "{numa: '0', pcie: 'pci0000:00', gpus: 4, nics: 1}, {numa: '1', pcie: 'pci0000:80', gpus: 4}"
    table = NodeTable(only_pool(pool_with(DEVICES % told)).cluster)
    assert table.devices_of(1) == (DeviceGroup("0", "pci0000:00", 4, 1), DeviceGroup("1", "pci0000:80", 4))
    with pytest.raises(InvalidArgument, match="groups of 4 GPUs in all, and a host has 8") as caught:
        read_fleet(pool_with(DEVICES % "{numa: '0', gpus: 4}"))
    assert caught.value.path.endswith("groups[0].devices")


def test_links_are_said_by_pools_or_regions_and_read_whole() -> None:
    links = links_of(read_fleet(LAB + "links: [here=there:40, lab=other:3]").links)
    assert dict(links.costs) == {("here", "there"): 40, ("lab", "other"): 3}
    for text in ("here=there", "here:4", "Here=there:4", "here=there:-1", "a=b:1, b=a:2"):
        with pytest.raises(InvalidArgument) as refused:
            read_fleet(LAB + f"links: [{text}]")
        assert refused.value.path.startswith("links")
