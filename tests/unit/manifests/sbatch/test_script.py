"""Directives are read as sbatch reads them."""

import pytest

from hanse.manifests.sbatch.script import options_of, read_script
from tests.unit.manifests.sbatch.scripts import converted, refusal, script


def options(text: str) -> dict[str, tuple[str, int]]:
    (found,) = read_script(text).components
    return {name: (option.value, option.line) for name, option in found.items()}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("--nodes=4", {"nodes": "4"}),
        ("--nodes 4", {"nodes": "4"}),
        ("-N4", {"nodes": "4"}),
        ("-N 4 -n 8", {"nodes": "4", "ntasks": "8"}),
        ("--cpus-per-t=2", {"cpus-per-task": "2"}),
        ("--exclusive", {"exclusive": ""}),
        ("--exclusive=topo", {"exclusive": "topo"}),
        ("--exclusive -N2", {"exclusive": "", "nodes": "2"}),
        ("-J 'two words' # and why", {"job-name": "two words"}),
        ('--job-name="a#b"', {"job-name": "a#b"}),
        ("-vQ", {"verbose": "", "quiet": ""}),
        ("--output=$HOME/%j", {"output": "$HOME/%j"}),
        ("", {}),
    ],
)
def test_words_are_options(line: str, wanted: dict[str, str]) -> None:
    assert {name: value for name, (value, _) in options(script(line)).items()} == wanted


def test_the_last_repeat_counts_and_has_its_line() -> None:
    assert options(script("-N1", "--nodes=2")) == {"nodes": ("2", 3)}


@pytest.mark.parametrize("line", ["##SBATCH -N9", " #SBATCH -N9", "#SBATCHX -N9", "# SBATCH -N9"])
def test_what_only_looks_like_a_directive_is_a_comment(line: str) -> None:
    assert options("\n".join(("#!/bin/sh", line, "#SBATCH -N2"))) == {"nodes": ("2", 3)}


def test_directives_end_at_the_first_command_and_late_ones_are_told() -> None:
    text = "#!/bin/sh\n\n#SBATCH -N2\n\n# a comment\nset -e\n#SBATCH -N9\n"
    found = read_script(text)
    assert (options(text), found.late) == ({"nodes": ("2", 3)}, (7,))


def test_hetjob_begins_another_component() -> None:
    found = read_script(script("-N1", "hetjob", "-N2", "packjob", "-N3"))
    assert [component["nodes"].value for component in found.components] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("#SBATCH -N1\n", "EMPTY", 0),
        ("#!/bin/sh\r\n#SBATCH -N1\r\n", "SCRIPT", 1),
        (script("--nodez=3"), "UNKNOWN_OPTION", 2),
        (script("--gpus-per=3"), "AMBIGUOUS", 2),
        (script("-N"), "MISSING", 2),
        (script("--nodes"), "MISSING", 2),
        (script("--requeue --no-requeue=1"), "TYPE", 2),
        (script("-J 'open"), "SCRIPT", 2),
        (script("stray"), "UNKNOWN_OPTION", 2),
        (script("--image=x"), "UNKNOWN_OPTION", 2),
        (script("#HANSE --nodes=2"), "UNKNOWN_OPTION", 2),
        ("#!/bin/sh\n" + "x" * 50_000, "SCRIPT", 1),
    ],
)
def test_what_sbatch_would_refuse_is_refused_with_its_line(text: str, reason: str, line: int) -> None:
    found = refusal(text)
    assert (found[0], found[2]) == (reason, line)


def test_options_of_a_command_line_have_no_line() -> None:
    assert [(o.kind.name, o.value, o.line) for o in options_of(["-N", "4", "--image=i"])] == [
        ("nodes", "4", 0),
        ("image", "i", 0),
    ]


def test_hanse_lines_say_what_slurm_has_no_word_for() -> None:
    (job,) = converted("#HANSE --image=train:3 --queue=research", "-p gpu").jobs
    assert (job.spec.queue, job.spec.pod_sets[0].template.image) == ("research", "train:3")
