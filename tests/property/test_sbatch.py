"""Whatever stands in a batch script, it becomes jobs or is refused in one line with the line it stands in."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.manifests import Converted, convert
from hanse.manifests.sbatch.options import OPTIONS, Fate, Takes
from hanse.model.errors import InvalidArgument
from hanse.model.validate import validate_spec

NAMES = sorted(name for name, kind in OPTIONS.items() if not kind.ours)
VALUES = st.sampled_from(
    [
        "1", "4", "16", "0", "-1", "2-8", "8-2", "1:00:00", "1-12", "64G", "0.5", "gpu:h100:8", "h100:4", "gpu",
        "none", "a&b", "(a|b)&c=d",
        "(((", "n[1-4,7]", "n[1-", "0-15:4%2", "ALL,X=1", "/a:/b:ro", "%x-%j.out", "topo", "q",
        "nvcr.io#x/y:1", "@", "1@2", "", "2147483648", "1k",
    ]
)  # fmt: skip
words = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=12)


def _line(name: str, value: str) -> str:
    return f"#SBATCH --{name}" if OPTIONS[name].takes is Takes.NOTHING else f"#SBATCH --{name}={value}"


lines = st.one_of(
    st.builds(_line, st.sampled_from(NAMES), VALUES),
    st.builds(_line, st.sampled_from(NAMES), words),
    words.map(lambda text: f"#SBATCH {text}"),
    st.just("#SBATCH hetjob"),
    words,
)


def read(text: str) -> Converted | None:
    """The conversion, None if it was refused as it should be."""
    try:
        return convert(text)
    except InvalidArgument as error:
        told = error
    assert told.message
    assert "\n" not in str(told)
    assert told.line <= text.count("\n") + 1
    return None


@settings(max_examples=600, deadline=None)
@given(st.lists(lines, max_size=8))
def test_a_script_becomes_valid_jobs_or_is_refused(written: list[str]) -> None:
    found = read("\n".join(("#!/bin/sh", *written, "true")))
    for job in found.jobs if found else ():
        validate_spec(job.spec, queue_required=False)
        assert all(origin.line >= 0 for origin in job.origins.values())


@settings(max_examples=300, deadline=None)
@given(st.lists(st.builds(_line, st.sampled_from(NAMES), VALUES), min_size=1, max_size=4))
def test_an_option_that_is_not_acted_on_is_named(written: list[str]) -> None:
    found = read("\n".join(("#!/bin/sh", *written, "true")))
    named = {one.path for one in found.unmapped} if found else set()
    for line in written if found else ():
        kind = OPTIONS[line.removeprefix("#SBATCH --").partition("=")[0]]
        assert kind.fate is Fate.MAPPED or not kind.why or f"--{kind.name}" in named
