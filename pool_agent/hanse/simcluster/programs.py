"""What a simulated pod does: how long it starts and runs, how it ends, what it says.

A job tells by what it would run anyway: `sleep N` runs N seconds. Beside that, three variables in a pod set's
environment set the simulation, and are ignored by every real cluster:

    HANSE_SIM_RUNTIME_S   how long its pods run, in seconds; 0 ends at once
    HANSE_SIM_START_S     how long they take to come up, in seconds, without jitter
    HANSE_SIM_EXIT_CODE   what they exit with, 0 to 255

A value that is no number is ignored, as a program ignores a variable that it does not understand.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hanse.simcluster.inputs import DEFAULT_MS, Program

RUNTIME_ENV: Final = "HANSE_SIM_RUNTIME_S"
START_ENV: Final = "HANSE_SIM_START_S"
EXIT_ENV: Final = "HANSE_SIM_EXIT_CODE"

SECONDS_MAX: Final = 10 * 366 * 24 * 3600
EXIT_CODE_MAX: Final = 255
TITLE_CHARS_MAX: Final = 160


def program(
    pod_set: str,
    image: str,
    words: Sequence[str],
    env: Mapping[str, str],
) -> Program:
    """What the pods of one set do; `words` are the command and its arguments."""
    code = _number(env.get(EXIT_ENV, ""), EXIT_CODE_MAX)
    run_ms = _milliseconds(env.get(RUNTIME_ENV, ""))
    return Program(
        pod_set,
        run_ms=_sleep_ms(words) if run_ms == DEFAULT_MS else run_ms,
        start_ms=_milliseconds(env.get(START_ENV, "")),
        exit_code=0 if code is None else int(code),
        title=" ".join((image, *words))[:TITLE_CHARS_MAX],
    )


def _number(text: str, most: int) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= most else None


def _milliseconds(text: str) -> int:
    seconds = _number(text, SECONDS_MAX)
    return DEFAULT_MS if seconds is None else round(seconds * 1000)


def _sleep_ms(words: Sequence[str]) -> int:
    """Run time of `sleep N`, also behind a shell (`sh -c "sleep N"`)."""
    last = words[-1].split() if len(words) == 3 and words[1] == "-c" else list(words)
    return _milliseconds(last[1]) if len(last) == 2 and last[0].endswith("sleep") else DEFAULT_MS
