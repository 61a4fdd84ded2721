"""Spans of a job form one tree, whoever tells them and in whatever order."""

import re
from collections.abc import Iterator

import pytest

from hanse.kit.telemetry.trace_context import (
    TraceContext,
    is_sampled,
    job_span_id,
    own_traceparent,
    parse_traceparent,
)
from hanse.kit.telemetry.tracing import Span, Stage, Tracer
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, JobId, Part

JOB = JobId("abcdefgh-0123456789abcdef")
GANG = GangKey(JOB, Attempt(2), Part(1))
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def told() -> Iterator[tuple[Tracer, list[Span]]]:
    tracer, spans = Tracer(), list[Span]()
    tracer.begin(spans.append, ratio=1.0)
    yield tracer, spans
    tracer.end()


def test_a_traceparent_is_read_and_written() -> None:
    context = parse_traceparent(GIVEN)
    assert context == TraceContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, sampled=True)
    assert context is not None
    assert context.text == GIVEN


@pytest.mark.parametrize(
    "text",
    ["", "00", GIVEN.upper(), GIVEN + "-x", f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{'a' * 32}-{'0' * 16}-01"],
)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert parse_traceparent(text) is None


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_the_sampled_flag_is_the_lowest_bit(flags: str, sampled: bool) -> None:
    assert is_sampled(GIVEN[:-2] + flags) is sampled


def test_a_jobs_own_trace_is_a_function_of_its_id() -> None:
    assert own_traceparent(JOB, 1.0) == own_traceparent(JOB, 1.0)
    assert own_traceparent(JOB, 1.0)[:-2] == own_traceparent(JOB, 0.0)[:-2]
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", own_traceparent(JOB, 1.0))
    assert own_traceparent(JOB, 0.0).endswith("-00")


def test_the_ratio_is_the_share_of_jobs_that_are_sampled() -> None:
    jobs = [JobId(f"abcdefgh-{number:016x}") for number in range(4_000)]
    sampled = sum(is_sampled(own_traceparent(job, 0.1)) for job in jobs)
    assert 320 < sampled < 480


def test_stages_hang_below_the_job_and_the_job_is_the_root_of_its_own_trace(told: tuple[Tracer, list[Span]]) -> None:
    tracer, spans = told
    own = tracer.own(JOB)
    tracer.stage(own, Stage.LINK, GANG, scope="link", start_ms=5, end_ms=9, pool="iowa")
    tracer.stage(own, Stage.JOB, GANG, scope="link", start_ms=1, end_ms=9)
    link, job = spans
    assert (job.parent_id, job.span_id) == (0, job_span_id(JOB))
    assert (link.parent_id, link.trace_id) == (job.span_id, job.trace_id)
    assert link.name == "hanse.link"
    assert link.attributes == {"hanse.job": JOB, "hanse.attempt": 2, "hanse.part": 1, "hanse.pool": "iowa"}


def test_a_given_trace_is_joined_below_the_callers_span(told: tuple[Tracer, list[Span]]) -> None:
    tracer, spans = told
    tracer.stage(GIVEN, Stage.JOB, GANG, scope="link", start_ms=1, end_ms=9)
    (job,) = spans
    assert (job.trace_id, job.parent_id) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


def test_stages_attempts_and_parts_are_spans_of_their_own(told: tuple[Tracer, list[Span]]) -> None:
    tracer, spans = told
    for attempt in (1, 2):
        for part in (0, 1):
            for stage in Stage:
                gang = GangKey(JOB, Attempt(attempt), Part(part))
                tracer.stage(GIVEN, stage, gang, scope="x", start_ms=1, end_ms=2)
    ids = [span.span_id for span in spans if span.name != "hanse.job"]
    assert len(set(ids)) == len(ids) == 4 * (len(Stage) - 1)


def test_what_is_not_sampled_is_not_told(told: tuple[Tracer, list[Span]]) -> None:
    tracer, spans = told
    tracer.stage(GIVEN[:-2] + "00", Stage.JOB, GANG, scope="x", start_ms=1, end_ms=2)
    tracer.stage("", Stage.JOB, GANG, scope="x", start_ms=1, end_ms=2)
    assert spans == []


def test_nothing_is_told_before_the_begin_and_after_the_end() -> None:
    tracer, spans = Tracer(), list[Span]()
    tracer.stage(GIVEN, Stage.JOB, GANG, scope="x", start_ms=1, end_ms=2)
    tracer.begin(spans.append, ratio=1.0)
    tracer.end()
    tracer.stage(GIVEN, Stage.JOB, GANG, scope="x", start_ms=1, end_ms=2)
    assert spans == []
    assert tracer.own(JOB).endswith("-00")


def test_a_stage_that_began_on_a_clock_ahead_of_ours_has_no_negative_length(
    told: tuple[Tracer, list[Span]],
) -> None:
    tracer, spans = told
    tracer.stage(GIVEN, Stage.LINK, GANG, scope="x", start_ms=12, end_ms=9)
    assert (spans[0].start_ms, spans[0].end_ms) == (9, 9)
