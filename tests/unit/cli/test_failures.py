"""Every failure is one line, one object, one exit code."""

import pytest

from hanse.cli.failures import error_object, exit_code, line_of
from hanse.model.errors import FailedPrecondition, HanseError, InvalidArgument, NotFound, Unavailable


@pytest.mark.parametrize(
    ("error", "file", "line"),
    [
        (
            InvalidArgument("0 workers; a gang needs at least 1", path="spec.replicas", line=23),
            "llama.yaml",
            "llama.yaml:23: spec.replicas: 0 workers; a gang needs at least 1",
        ),
        (InvalidArgument("not UTF-8 text", line=3), "stdin", "stdin:3: not UTF-8 text"),
        (InvalidArgument("the file holds no object"), "a.yaml", "a.yaml: the file holds no object"),
        (InvalidArgument("too many", line=7), "", "line 7: too many"),
        (NotFound('queue "x" does not exist', path="queue"), "", 'queue "x" does not exist'),
        (InvalidArgument("not KEY=VALUE", path="--env"), "", "--env: not KEY=VALUE"),
        (
            InvalidArgument("7 does not divide 8", path="pod_sets[0].slices"),
            "",
            "pod_sets[0].slices: 7 does not divide 8",
        ),
    ],
)
def test_line(error: HanseError, file: str, line: str) -> None:
    assert line_of(error, file=file) == line


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgument("x"), 1),
        (FailedPrecondition("x"), 1),
        (Unavailable("x", reason="WAIT_TIMEOUT"), 1),
        (Unavailable("x", reason="STORE_FULL"), 1),
        (InvalidArgument("x", reason="SERVER_ADDRESS_INVALID"), 2),
        (Unavailable("x", reason="SERVER_UNREACHABLE"), 3),
        (Unavailable("x", reason="DEADLINE_EXCEEDED"), 3),
    ],
)
def test_exit_code(error: HanseError, code: int) -> None:
    assert exit_code(error) == code


def test_nobody_answering_has_one_reason_for_programs() -> None:
    told = error_object(Unavailable("nobody", reason="SERVER_UNREACHABLE"))
    assert told == {"error": {"reason": "UNAVAILABLE", "path": "", "line": 0, "message": "nobody"}}
