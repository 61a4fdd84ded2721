"""The commands that are processes: what they refuse, in one line, and with which exit code."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.cli.main import run
from hanse.model.errors import HanseError, InvalidArgument
from hanse.up.agent_process import checked_address
from hanse.up.fleet import load_fleet
from hanse.up.global_process import replica_name
from hanse.up.processes import ProcessesOptions, default_state, free_ports
from hanse.up.tokens import read_token

WRONG_USE, FAILED = 2, 1
ETCD = "etcd://127.0.0.1:1"
AGENT = ["agent", "--global", "127.0.0.1:1", "--pool", "p"]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HANSE_DATA_DIR", str(tmp_path / "data"))
    for name in ("HANSE_GLOBAL_STORE", "HANSE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["global"], WRONG_USE, "no store: say --store, HANSE_GLOBAL_STORE, or store in a file of settings"),
        (["global", "--set", "lease_tll_s=3"], WRONG_USE, "no setting 'lease_tll_s'; did you mean"),
        (["global", "--store", ETCD, "--log-level", "loud"], WRONG_USE, "--log-level: "),
        (["global", "--store", ETCD, "--listen", "0.0.0.0:7311"], FAILED, "without credentials"),
        (["global", "--store", ETCD, "--no-api", "--no-scheduler"], FAILED, "nothing to do"),
        (["global", "--store", ETCD, "--replica", "Not A Name"], FAILED, "cannot be a replica's name"),
        (["global", "--store", "oracle:x"], FAILED, "store"),
        (["global", "--store", ETCD, "--tokens-file", "/none"], FAILED, "cannot be read"),
        (["global", "--store", ETCD, "--peer-token-file", "/none"], FAILED, "cannot be read"),
        (["agent"], WRONG_USE, "no cluster"),
        ([*AGENT, "--cluster", "nowhere:1"], FAILED, "is no cluster"),
        (["agent", "--cluster", "sim:127.0.0.1:1", "--pool", "p", "--global", "here"], FAILED, "is not HOST:PORT"),
        ([*AGENT, "--cluster", "sim:127.0.0.1:1", "--pool", "p"], FAILED, "is there twice"),
        ([*AGENT, "--cluster", "sim:127.0.0.1:1", "--pool", "Not A Name"], WRONG_USE, "--pool: "),
        (["sim-cluster", "--listen", "0.0.0.0:1"], FAILED, "listens on 127.0.0.1 only"),
        (["sim-cluster", "--fleet", "/none.yaml"], FAILED, "cannot be read"),
        (["up", "--replicas", "0"], WRONG_USE, "--replicas: "),
        (["up", "--store", ETCD], FAILED, "or add --processes"),
        (["up", "--processes", "--replicas", "2", "--store", "sqlite:x"], FAILED, "a SQLite file has one process"),
        (["up", "--processes", "--store", "memory:"], FAILED, "ends with its process"),
        (["up", "--processes", "--store", ETCD, "--listen", "0.0.0.0:1"], FAILED, "without credentials"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert line in told


def test_a_mistake_in_a_file_names_file_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "global.yaml"
    file.write_text("store: etcd://127.0.0.1:1\nlease_tll_s: 3\n")
    assert run(["global", "--config", str(file)]) == FAILED
    assert capsys.readouterr().err.startswith(f'{file}:2: lease_tll_s: no field of this name; did you mean "lease')


def test_a_mistake_in_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HANSE_GLOBAL_STROE", "x")
    assert run(["global", "-o", "json"]) == FAILED
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["path"], error["reason"]) == ("HANSE_GLOBAL_STROE", "UNKNOWN_SETTING")


def test_a_replica_is_called_as_its_machine_unless_told() -> None:
    assert replica_name("r7") == "r7"
    assert replica_name("") == socket.gethostname().lower().rstrip(".")


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "ho st:1", "user@host:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not HOST:PORT"):
        checked_address(text)


@pytest.mark.parametrize("text", ["", "two words", "\xff"])
def test_a_token_file_holds_one_token(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidArgument) as found:
        read_token(file)
    assert text == "" or text not in str(found.value), "tokens are never shown"


def test_a_token_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("sixteen-letters-and-more\n")
    assert read_token(file) == "sixteen-letters-and-more"
    assert read_token(None) == ""


def test_state_lies_beside_a_store_that_is_a_file(tmp_path: Path) -> None:
    assert default_state(f"sqlite:{tmp_path}/up.sqlite") == tmp_path / "up.sqlite.processes"
    assert default_state(ETCD) == tmp_path / "data" / "processes"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        found.listen()
        yield int(found.getsockname()[1])


def test_ports_that_are_taken_are_passed_over(taken: int) -> None:
    ports = free_ports("127.0.0.1", taken - 1, 3)
    assert ports[0] == taken - 1, "the wanted one is left to whoever binds it"
    assert taken not in ports
    assert len(set(free_ports("127.0.0.1", 0, 5))) == 5


@pytest.mark.parametrize("agents", [-1])
def test_a_number_of_agents_that_cannot_be_is_refused(tmp_path: Path, agents: int) -> None:
    options = ProcessesOptions(
        load_fleet(), None, ETCD, "", "127.0.0.1:0", replicas=1, state=tmp_path, agents_per_process=agents
    )
    with pytest.raises(HanseError, match="at least 1"):
        options.check()
