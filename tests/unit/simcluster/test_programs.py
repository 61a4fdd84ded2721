"""What a job says about its simulated pods."""

import pytest

from hanse.simcluster.inputs import DEFAULT_MS, Program
from hanse.simcluster.programs import TITLE_CHARS_MAX, program


@pytest.mark.parametrize(
    ("words", "env", "run_ms", "start_ms", "exit_code"),
    [
        pytest.param((), {}, DEFAULT_MS, DEFAULT_MS, 0, id="nothing said"),
        pytest.param(("python", "train.py"), {}, DEFAULT_MS, DEFAULT_MS, 0, id="a program"),
        pytest.param(("sleep", "30"), {}, 30_000, DEFAULT_MS, 0, id="sleep"),
        pytest.param(("/bin/sleep", "0.5"), {}, 500, DEFAULT_MS, 0, id="sleep by path"),
        pytest.param(("sh", "-c", "sleep 3"), {}, 3_000, DEFAULT_MS, 0, id="sleep in a shell"),
        pytest.param(("sleep", "infinity"), {}, DEFAULT_MS, DEFAULT_MS, 0, id="sleep for ever"),
        pytest.param(("sleep", "1", "2"), {}, DEFAULT_MS, DEFAULT_MS, 0, id="sleep twice"),
        pytest.param(("x",), {"HANSE_SIM_RUNTIME_S": "1.5"}, 1_500, DEFAULT_MS, 0, id="run time"),
        pytest.param(("x",), {"HANSE_SIM_RUNTIME_S": "0"}, 0, DEFAULT_MS, 0, id="no run time"),
        pytest.param(("sleep", "9"), {"HANSE_SIM_RUNTIME_S": "1"}, 1_000, DEFAULT_MS, 0, id="the variable wins"),
        pytest.param(("x",), {"HANSE_SIM_START_S": "2"}, DEFAULT_MS, 2_000, 0, id="start time"),
        pytest.param(("x",), {"HANSE_SIM_EXIT_CODE": "137"}, DEFAULT_MS, DEFAULT_MS, 137, id="exit code"),
        pytest.param(("x",), {"HANSE_SIM_EXIT_CODE": "-1"}, DEFAULT_MS, DEFAULT_MS, 0, id="no exit code"),
        pytest.param(("x",), {"HANSE_SIM_RUNTIME_S": "soon"}, DEFAULT_MS, DEFAULT_MS, 0, id="no number"),
        pytest.param(("x",), {"HANSE_SIM_RUNTIME_S": "nan"}, DEFAULT_MS, DEFAULT_MS, 0, id="not a number"),
        pytest.param(("x",), {"HANSE_SIM_RUNTIME_S": "-5"}, DEFAULT_MS, DEFAULT_MS, 0, id="negative"),
        pytest.param(("x",), {"HANSE_SIM_RUNTIME_S": "1e300"}, DEFAULT_MS, DEFAULT_MS, 0, id="endless"),
    ],
)
def test_a_program(words: tuple[str, ...], env: dict[str, str], run_ms: int, start_ms: int, exit_code: int) -> None:
    title = " ".join(("image", *words))
    assert program("worker", "image", words, env) == Program("worker", run_ms, start_ms, exit_code, title)


def test_a_title_is_bounded() -> None:
    assert len(program("worker", "image", ("x" * 10_000,), {}).title) == TITLE_CHARS_MAX
