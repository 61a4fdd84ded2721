"""Batch scripts to convert, and ways to look at what comes out."""

import pytest

from hanse.manifests import Converted, ImportedJob, convert
from hanse.model.errors import InvalidArgument
from hanse.model.job import PodSet


def script(*directives: str, body: str = "srun true\n", shebang: str = "#!/bin/bash") -> str:
    """A script with these options, each in a line of its own that begins with #SBATCH unless it says otherwise."""
    lines = [line if line.startswith("#") else f"#SBATCH {line}" for line in directives]
    return "\n".join((shebang, *lines, body))


def converted(*directives: str) -> Converted:
    """All of a conversion."""
    return convert(script(*directives))


def job(*directives: str) -> ImportedJob:
    """The only job of a script."""
    (found,) = converted(*directives).jobs
    return found


def pods(*directives: str) -> PodSet:
    """The only pod set of a script."""
    (found,) = job(*directives).spec.pod_sets
    return found


def env(*directives: str) -> dict[str, str]:
    """The environment of its pods."""
    return {variable.name: variable.value for variable in pods(*directives).template.env}


def noted(*directives: str) -> dict[str, str]:
    """Option → why, of everything that is not acted on."""
    return {one.path: one.why for one in converted(*directives).unmapped}


def refusal(text: str) -> tuple[str, str, int]:
    """Reason, option and line of a refusal."""
    with pytest.raises(InvalidArgument) as caught:
        convert(text)
    assert "\n" not in str(caught.value)
    return caught.value.reason, caught.value.path, caught.value.line
