"""The command as a shell sees it, where no server is needed: exit codes, where text goes, what is never shown."""

import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TypeAlias

import pytest

from hanse.cli.commands.events import moment_ms
from hanse.cli.main import run
from tests.arch.tree import ROOT

Hanse: TypeAlias = Callable[..., SimpleNamespace]

LLAMA = ROOT / "docs/examples/llama3-70b.yaml"


@pytest.fixture
def hanse(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed_port: int
) -> Hanse:
    """Runs the command in a home of its own, with a server that is down; code, out and err."""
    for name in ("HANSE_CONFIG", "HANSE_OUTPUT", "HANSE_QUEUE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HANSE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HANSE_SERVER", f"127.0.0.1:{closed_port}")

    def call(*arguments: str) -> SimpleNamespace:
        capsys.readouterr()
        code = run(arguments)
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return call


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of the loopback where nobody listens, kept free of others while the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class Quiet(http.server.BaseHTTPRequestHandler):
    """A web server that writes no log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


@pytest.fixture
def other_server() -> Iterator[int]:
    """A port where somebody answers who speaks another protocol."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


# ---- nobody answers -----------------------------------------------------------------------------------------


def test_a_server_that_is_down_is_told_in_one_line(hanse: Hanse, closed_port: int) -> None:
    said = hanse("jobs")
    assert (said.code, said.out) == (3, "")
    assert said.err == (
        f"cannot reach a Hanse server at 127.0.0.1:{closed_port} (connection refused). "
        "Start one with `hanse up`, or set HANSE_SERVER.\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs"],
        ["explain", "last"],
        ["hold", "last"],
        ["release", "--queue", "research"],
        ["update", "last", "--priority", "urgent"],
        ["retry", "last"],
        ["watch"],
        ["events"],
        ["pool", "x"],
        ["submit", str(LLAMA)],
        ["sim", "fail", "a/b"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_that_asks_exits_with_3(hanse: Hanse, arguments: list[str]) -> None:
    said = hanse(*arguments, "-o", "json")
    assert said.code == 3, said
    error = json.loads(said.out)["error"]
    assert list(error) == ["reason", "path", "line", "message"]
    assert error["reason"] == "UNAVAILABLE"
    assert said.err == ""


def test_a_host_that_does_not_exist(hanse: Hanse) -> None:
    said = hanse("pools", "--server", "nowhere.invalid:7311")
    assert said.code == 3
    assert "nowhere.invalid:7311" in said.err
    assert said.err.count("\n") == 1


def test_a_port_where_something_else_listens(hanse: Hanse, other_server: int) -> None:
    said = hanse("pools", "--server", f"127.0.0.1:{other_server}")
    assert said.code == 3
    assert said.err.startswith(f"cannot reach a Hanse server at 127.0.0.1:{other_server} (")


def test_version_needs_no_server(hanse: Hanse) -> None:
    said = hanse("version", "-o", "json")
    assert said.code == 0
    told = json.loads(said.out)
    assert told["client"]
    assert told["server"] is None


# ---- wrong use ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nosuch"], "no such command 'nosuch'"),
        (["jobs", "--nosuch"], "no such option: --nosuch"),
        (["job"], "missing argument"),
        (["wait", "x", "--timeout", "soon"], "--timeout"),
        (["jobs", "-o", "xml"], "'xml' is not one of"),
        (["submit"], "name one FILE"),
        (["submit", "a.yaml", "b.yaml"], "name one FILE"),
        (["submit", "a.yaml", "--gpus", "8"], "do not go together"),
        (["submit", "a.yaml", "--required", "rack"], "--required describes a job from flags"),
        (["queue", "x", "--hold", "--release"], "do not go together"),
        (["events", "x", "--pool", "y"], "do not go together"),
        (["hold"], "name a JOB, or a queue by --queue"),
        (["release", "x", "--queue", "y"], "name a JOB, or a queue by --queue"),
        (["update", "x"], "missing option '--priority'"),
        (["retry", "x", "--wait", "soon"], "--wait"),
        (["jobs", "--server", "a:b:c"], "is not the address of a server"),
    ],
)
def test_wrong_use_exits_with_2_and_one_line(hanse: Hanse, arguments: list[str], told: str) -> None:
    said = hanse(*arguments)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert said.err.count("\n") == 1


def test_wrong_use_is_an_object_for_a_program(hanse: Hanse) -> None:
    said = hanse("jobs", "--nosuch", "-o", "json")
    assert said.code == 2
    assert json.loads(said.out)["error"]["reason"] == "USAGE"


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("90s", 9_910_000),
        ("1h30m", 4_600_000),
        ("20d", 1),
        ("1970-01-01T00:00:07Z", 7_000),
        ("1970-01-01T01:00:07+01:00", 7_000),
    ],
)
def test_a_time_is_so_long_ago_or_written_out(text: str, at_ms: int) -> None:
    assert moment_ms(text, 10_000_000) == at_ms


@pytest.mark.parametrize("text", ["yesterday", "10", "-5m", "1h 30m"])
def test_what_is_no_time_is_wrong_use(hanse: Hanse, text: str) -> None:
    said = hanse("events", f"--since={text}")
    assert said.code == 2
    assert "--since" in said.err
    assert "neither a length nor a time" in said.err


def test_what_stands_after_two_dashes_is_no_option_of_ours(hanse: Hanse) -> None:
    said = hanse("submit", "--gpus", "7", "--per-pod", "2", "--", "tool", "-o", "json")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("--per-pod: 7 GPUs")


# ---- files that are wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["submit", "convert"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            LLAMA.read_text().replace("replicas: 512", "replicas: 0"),
            ":18: spec.pytorchReplicaSpecs.Worker.replicas: 0",
        ),
        ("a: [1\nb: 2\n", ":2: not YAML: "),
        ("kind: Nonsense\napiVersion: v9\n", ":1: kind: "),
        ("x: 1\n" * 300_000, ": 1,5"),
        ("", ": the file holds no object"),
    ],
    ids=["count", "broken", "kind", "large", "empty"],
)
def test_a_file_is_refused_with_its_name_and_line(
    hanse: Hanse, tmp_path: Path, command: str, text: str, told: str
) -> None:
    file = tmp_path / "llama.yaml"
    file.write_text(text)
    said = hanse(command, str(file))
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"{file}{told}")
    assert said.err.count("\n") == 1


def test_a_refusal_is_an_object_for_a_program(hanse: Hanse, tmp_path: Path) -> None:
    file = tmp_path / "llama.yaml"
    file.write_text(LLAMA.read_text().replace("replicas: 512", "replicas: -1"))
    said = hanse("submit", str(file), "-o", "json")
    assert (said.code, said.err) == (1, "")
    error = json.loads(said.out)["error"]
    assert (error["path"], error["line"]) == ("spec.pytorchReplicaSpecs.Worker.replicas", 18)


@pytest.mark.parametrize("arguments", [["submit"], ["apply"], ["convert"]])
def test_a_file_that_is_not_there(hanse: Hanse, arguments: list[str]) -> None:
    said = hanse(*arguments, "nowhere.yaml", "-o", "json")
    assert said.code == 1
    error = json.loads(said.out)["error"]
    assert (error["reason"], error["message"]) == (
        "FILE_UNREADABLE",
        "nowhere.yaml cannot be read: No such file or directory",
    )


def test_a_configuration_file_that_is_wrong(hanse: Hanse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("servr: a:1\n")
    monkeypatch.setenv("HANSE_CONFIG", str(config))
    said = hanse("jobs")
    assert (said.code, said.err.startswith(f"{config}:1: servr: ")) == (1, True)


# ---- what needs no server -----------------------------------------------------------------------------------


def test_convert_names_the_shape_that_the_docs_promise(hanse: Hanse) -> None:
    said = hanse("convert", str(LLAMA), "-o", "json")
    assert said.code == 0
    told = json.loads(said.out)
    assert list(told) == ["jobs", "unmapped"]
    job = told["jobs"][0]
    assert (job["kind"], job["queue"], job["min_total"]) == ("PyTorchJob", "high-priority-training", 512)
    assert job["pod_sets"][0]["resources"] == {"nvidia.com/gpu": 8, "rdma/hca": 1}


def test_convert_to_native_can_be_converted_again(hanse: Hanse, tmp_path: Path) -> None:
    file = tmp_path / "native.yaml"
    file.write_text(hanse("convert", str(LLAMA), "-o", "native").out)
    assert json.loads(hanse("convert", str(file), "-o", "json").out)["jobs"][0]["pod_sets"][0]["count"] == 512


@pytest.mark.parametrize("arguments", [[], ["--help"], ["sim"], ["submit", "--help"]])
def test_help_goes_to_stdout_and_exits_with_0(hanse: Hanse, arguments: list[str]) -> None:
    said = hanse(*arguments)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Usage: hanse")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(hanse: Hanse, shell: str) -> None:
    said = hanse("completion", shell)
    assert said.code == 0
    assert "_HANSE_COMPLETE" in said.out


def test_completion_says_nothing_when_nobody_answers(closed_port: int, tmp_path: Path) -> None:
    environment = {
        "_HANSE_COMPLETE": "complete_bash",
        "COMP_WORDS": "hanse pool ",
        "COMP_CWORD": "2",
        "HANSE_SERVER": f"127.0.0.1:{closed_port}",
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "hanse.cli"], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_bug_is_told_in_one_line(hanse: Hanse, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(name: str) -> bytes:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("hanse.cli.commands.converting.read_file", explode)
    said = hanse("convert", "x.yaml")
    assert (said.code, said.out) == (1, "")
    assert said.err == "this is a bug of hanse (RuntimeError: two lines); HANSE_DEBUG=1 shows where it is\n"
    monkeypatch.setenv("HANSE_DEBUG", "1")
    with pytest.raises(RuntimeError):
        hanse("convert", "x.yaml")


def test_a_reader_that_has_gone_is_no_failure() -> None:
    command = f"{sys.executable} -m hanse.cli convert {LLAMA} -o json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=30)
    assert (done.stdout, done.stderr) == ("{0\n", "")


def test_help_loads_nothing_that_is_slow() -> None:
    look = "import sys; from hanse.cli.main import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=30)
    loaded = set(done.stderr.split())
    assert (
        loaded & {"asyncio", "google.protobuf", "grpc", "numpy", "pydantic", "rich", "yaml", "hanse.client.aio"}
        == set()
    )
