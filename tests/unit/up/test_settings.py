"""Settings of processes: from where, in which order, and how a mistake is told."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel

from hanse.agent.shell.config import AgentConfig
from hanse.apiserver.settings import ApiSettings
from hanse.kit.logs import LogFormat
from hanse.model.errors import InvalidArgument
from hanse.model.ids import PoolName, ReplicaId
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.shell.replica import ReplicaConfig
from hanse.up.agent_settings import AgentSettings, LevelSettings, PoolSettings
from hanse.up.global_settings import GlobalSettings
from hanse.up.options import UpOptions
from hanse.up.settings import ProcessSettings, load, pairs, why_of
from hanse.up.settings_reference import PAGE, PROCESSES, page
from hanse.up.sim_settings import SimClusterSettings
from hanse.up.up_settings import UpSettings
from tests.arch.tree import ROOT

STORE = {"store": "etcd://a:1"}
NO_FILE: Mapping[str, str] = {}
COUNTS = ("replicas", "agents_per_process", "cost")
"""Numbers that count things of their name, or whose unit the site chooses."""


def global_settings(
    tmp_path: Path, *, text: str = "", environment: Mapping[str, str] = NO_FILE, flags: Mapping[str, object] = STORE
) -> GlobalSettings:
    file = tmp_path / "global.yaml"
    file.write_text(text)
    return load(GlobalSettings, file=file, flags=flags, environment=environment)


def refusal(tmp_path: Path, **terms: object) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as found:
        global_settings(tmp_path, **terms)  # type: ignore[arg-type]
    return found.value


# ---- from where ---------------------------------------------------------------------------------------------


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    text = "lease_ttl_s: 11\nhistory_s: 111\ncalls_max: 1\n"
    environment = {"HANSE_GLOBAL_LEASE_TTL_S": "12", "HANSE_GLOBAL_HISTORY_S": "112"}
    found = global_settings(tmp_path, text=text, environment=environment, flags={**STORE, "lease_ttl_s": "13"})
    assert (found.lease_ttl_s, found.history_s, found.calls_max) == (13, 112, 1)


def test_what_nobody_says_has_the_default_of_the_part_that_uses_it() -> None:
    found = GlobalSettings(store="etcd://a:1")
    assert found.replica_config("r0") == ReplicaConfig(ReplicaId("r0"))
    assert found.api_settings() == ApiSettings()
    agents = AgentSettings(cluster="sim:a:1", pools=("p",), replicas=("a:1",))  # type: ignore[arg-type]
    assert agents.agent_config(agents.pools[0]) == AgentConfig(PoolName("p"))


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert global_settings(tmp_path, text="\n").log_format is LogFormat.TEXT


def test_the_process_does_not_look_into_its_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSE_GLOBAL_REPLICA", "elsewhere")
    monkeypatch.setenv("REPLICA", "elsewhere")
    assert global_settings(tmp_path).replica == ""


def test_variables_that_kubernetes_makes_for_a_service_are_no_settings(tmp_path: Path) -> None:
    made = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_GRPC", "PORT", "PORT_7311_TCP", "PORT_7311_TCP_ADDR")
    environment = {f"HANSE_GLOBAL_{name}": "tcp://10.0.0.1:7311" for name in made}
    assert global_settings(tmp_path, environment=environment).store == "etcd://a:1"


@pytest.mark.parametrize("said", ["a:1,b:2", "a:1 , b:2,", '["a:1", "b:2"]'])
def test_a_list_in_one_text_has_commas_or_is_json(said: str) -> None:
    environment = {"HANSE_AGENT_REPLICAS": said, "HANSE_AGENT_POOLS": "p,q", "HANSE_AGENT_CLUSTER": "sim:a:1"}
    found = load(AgentSettings, file=None, flags={}, environment=environment)
    assert found.replicas == ("a:1", "b:2")
    assert [pool.name for pool in found.pools] == ["p", "q"]


def test_a_file_says_more_of_a_pool_than_its_name(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(
        "cluster: sim:a:1\nreplicas: [a:1]\npools:\n- small\n"
        "- {name: large, region: north, cost: 7, labels: {tier: gold}, levels: [{key: example/rack, alias: rack}]}\n"
    )
    small, large = load(AgentSettings, file=file, flags={}, environment={}).pools
    assert (small.name, small.levels) == ("small", None)
    assert (large.region, large.cost, large.labels) == ("north", 7, {"tier": "gold"})
    assert large.levels == (LevelSettings(key="example/rack", alias="rack"),)


def test_set_takes_any_setting() -> None:
    found = pairs(GlobalSettings, ["lease_ttl_s=15", "store=etcd://u:p=w@a:1"])
    assert found == {"lease_ttl_s": "15", "store": "etcd://u:p=w@a:1"}


# ---- mistakes -----------------------------------------------------------------------------------------------


def test_an_unknown_field_of_the_file_is_told_with_its_line_and_what_was_meant(tmp_path: Path) -> None:
    error = refusal(tmp_path, text="# a comment\nlease_tll_s: 12\n")
    assert (error.path, error.line) == ("lease_tll_s", 2)
    assert 'did you mean "lease_ttl_s"?' in error.message


def test_an_unknown_field_within_a_pool_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text("cluster: sim:a:1\nreplicas: [a:1]\npools:\n- name: p\n  regoin: north\n")
    with pytest.raises(InvalidArgument) as found:
        load(AgentSettings, file=file, flags={}, environment={})
    assert (found.value.path, found.value.line) == ("pools[0].regoin", 5)
    assert 'did you mean "region"?' in found.value.message


def test_an_unknown_variable_is_told_with_what_was_meant(tmp_path: Path) -> None:
    error = refusal(tmp_path, environment={"HANSE_GLOBAL_LEASE_TTL": "12"})
    assert error.path == "HANSE_GLOBAL_LEASE_TTL"
    assert 'did you mean "HANSE_GLOBAL_LEASE_TTL_S"?' in error.message


def test_another_process_s_variable_is_none_of_our_business(tmp_path: Path) -> None:
    assert global_settings(tmp_path, environment={"HANSE_AGENT_NONSENSE": "x", "HANSE_SERVER": "y"})


@pytest.mark.parametrize(
    ("text", "message"),
    [("lease_ttl=1", "no setting 'lease_ttl'; did you mean \"lease_ttl_s\"?"), ("lease_ttl_s", "is not NAME=VALUE")],
)
def test_a_wrong_set_is_told(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)) as found:
        pairs(GlobalSettings, [text])
    assert found.value.path == "--set"


@pytest.mark.parametrize(
    ("terms", "path", "line"),
    [
        ({"text": "\nlease_ttl_s: soon\n"}, "lease_ttl_s", 2),
        ({"environment": {"HANSE_GLOBAL_LEASE_TTL_S": "soon"}}, "HANSE_GLOBAL_LEASE_TTL_S", 0),
        ({"flags": {**STORE, "lease_ttl_s": "soon"}}, "--set lease_ttl_s", 0),
        ({"flags": {**STORE, "log_level": "loud"}}, "--log-level", 0),
    ],
)
def test_a_value_that_cannot_be_is_told_where_it_was_said(
    tmp_path: Path, terms: dict[str, object], path: str, line: int
) -> None:
    error = refusal(tmp_path, **terms)
    assert (error.path, error.line) == (path, line)
    assert "\n" not in error.message


@pytest.mark.parametrize("value", ["0.1", "100000", "nan"])
def test_a_value_out_of_bounds_is_refused(tmp_path: Path, value: str) -> None:
    refusal(tmp_path, environment={"HANSE_GLOBAL_LEASE_TTL_S": value})


def test_what_is_missing_is_told_with_all_places_where_it_can_be_said(tmp_path: Path) -> None:
    error = refusal(tmp_path, flags={})
    assert error.message.startswith("no store: say --store, HANSE_GLOBAL_STORE, or store in a file of settings")


@pytest.mark.parametrize(
    ("text", "message"),
    [("- store: x\n", "mapping"), ("store: [", "line"), ("store: a\n---\nstore: b\n", "2 documents")],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    error = refusal(tmp_path, text=text)
    assert message in error.message or error.line


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        load(GlobalSettings, file=tmp_path / "none.yaml", flags=STORE, environment={})


# ---- the reference ------------------------------------------------------------------------------------------


def test_the_reference_is_what_the_models_say() -> None:
    remedy = "run: python -m hanse.up.settings_reference docs/reference"
    assert (ROOT / "docs/reference" / PAGE).read_text(encoding="utf-8") == page(), remedy


@pytest.mark.parametrize("model", [*PROCESSES, PoolSettings, LevelSettings])
def test_every_setting_says_what_it_means_and_why(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert field.description, name
        assert why_of(field), name


@pytest.mark.parametrize("model", [*PROCESSES, PoolSettings])
def test_every_number_has_its_unit_in_its_name(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        if field.annotation in (int, float):
            assert name.endswith(("_s", "_max")) or name in COUNTS, name


@pytest.mark.parametrize("model", [GlobalSettings, AgentSettings, SimClusterSettings, UpSettings])
def test_flags_belong_to_fields(model: type[ProcessSettings]) -> None:
    assert set(model.FLAGS) <= set(model.model_fields)


def test_what_leaves_the_store_is_said_the_same_way_for_one_process_and_for_all(tmp_path: Path) -> None:
    said = {"retain_terminal_age_s": "3600", "retain_terminal_jobs_max": "7"}
    text = "retention_drop_per_s: 5\n"
    environment = {f"HANSE_GLOBAL_{name.upper()}": value for name, value in said.items()}
    found = global_settings(tmp_path, text=text, environment=environment)
    assert found.replica_config("r0").retention == Retention(age_s=3600, jobs_max=7, drop_per_s=5)
    assert load(UpSettings, file=None, flags=said, environment={}).retention() == Retention(age_s=3600, jobs_max=7)


@pytest.mark.parametrize(
    ("store", "archive_dir", "archive"),
    [
        ("sqlite:/a/b.sqlite", "", "/a/b.sqlite.archive"),
        ("sqlite:/a/b.sqlite", "/c", "/c"),
        ("sqlite:/a/b.sqlite", "none", "none"),
        ("memory:", "", "none"),
        ("memory:", "/c", "/c"),
    ],
)
def test_the_archive_of_one_process_is_beside_its_store(store: str, archive_dir: str, archive: str) -> None:
    assert UpOptions(store=store, archive_dir=archive_dir).archive == archive


def test_links_reach_the_replica(tmp_path: Path) -> None:
    said = global_settings(tmp_path, flags={**STORE, "links": "us=eu:40,a=b:0"})
    assert dict(said.replica_config("r0").limits.links.costs) == {("eu", "us"): 40, ("a", "b"): 0}
    assert "links" in str(refusal(tmp_path, flags={**STORE, "links": "us=eu"}))
