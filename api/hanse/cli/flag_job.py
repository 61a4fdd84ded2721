"""A job from flags: `hanse submit --gpus 64 --per-pod 8 --flavor h100 --required rack -- python train.py`.

The flags become a native spec, and the importer reads it, so that a quantity, a duration or a level means the same
here as in a file, and is refused in the same words. Only the place differs: what stands in a flag is blamed on it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hanse.model.errors import HanseError, InvalidArgument

GPUS_PER_POD: Final = 8
"""GPUs of a pod if nothing is said, or all of them if there are fewer: a whole host of the usual kind."""

POD_SET: Final = "worker"
NAME_DEFAULT: Final = "job"
NAME_CHARS_MAX: Final = 40

_FLAGS: Final = (
    ("pod_sets[0].count", "--gpus"),
    ("pod_sets[0].min_count", "--gpus"),
    ("pod_sets[0].flavors", "--flavor"),
    ("pod_sets[0].required", "--required"),
    ("pod_sets[0].topology.required_level", "--required"),
    ("pod_sets[0].topology.required", "--required"),
    ("pod_sets[0].preferred", "--preferred"),
    ("pod_sets[0].topology.preferred_level", "--preferred"),
    ("pod_sets[0].topology.preferred", "--preferred"),
    ("pod_sets[0].slices", "--slice"),
    ("pod_sets[0].topology.slices", "--slice"),
    ("pod_sets[0].image", "--image"),
    ("pod_sets[0].template.image", "--image"),
    ("pod_sets[0].env", "--env"),
    ("pod_sets[0].template.env", "--env"),
    ("pod_sets[0].resources.cpu", "--cpus"),
    ("pod_sets[0].resources.memory", "--memory"),
    ("pod_sets[0].resources", "--per-pod"),
    ("priority_class", "--priority"),
    ("duration", "--duration"),
    ("max_pools", "--max-pools"),
    ("labels", "--label"),
    ("queue", "--queue"),
    ("name", "--name"),
)


@dataclass(frozen=True, slots=True)
class FlagJob:
    """What the flags said; None and "" where they said nothing."""

    gpus: int | None = None
    per_pod: int | None = None
    pods: int | None = None
    flavors: tuple[str, ...] = ()
    required: str = ""
    preferred: str = ""
    slices: tuple[str, ...] = ()
    name: str = ""
    image: str = ""
    env: tuple[str, ...] = ()
    cpus: str = ""
    memory: str = ""
    duration: str = ""
    max_pools: int | None = None
    labels: tuple[str, ...] = ()
    gpu_resource: str = "nvidia.com/gpu"
    command: tuple[str, ...] = ()

    @property
    def said(self) -> bool:
        """Whether the flags ask for pods at all."""
        return self.gpus is not None or self.pods is not None


def native_text(job: FlagJob) -> str:
    """The native spec that the flags mean, as JSON, which is YAML.

    Raises:
        InvalidArgument: the path is the flag.
    """
    count, per_pod = _pods(job)
    resources: dict[str, object] = {job.gpu_resource: per_pod} if per_pod else {}
    resources |= {name: value for name, value in (("cpu", job.cpus), ("memory", job.memory)) if value}
    pod_set: dict[str, object] = {"name": POD_SET, "count": count, "resources": resources}
    pod_set |= _given(
        image=job.image,
        command=list(job.command),
        env=_pairs(job.env, "--env"),
        flavors=list(job.flavors),
        required=job.required,
        preferred=job.preferred,
        slices=[_slice(text) for text in job.slices],
    )
    document: dict[str, object] = {
        "apiVersion": "hanse/v1",
        "kind": "Job",
        "name": job.name or name_of(job.command),
        "pod_sets": [pod_set],
    }
    document |= _given(duration=job.duration, labels=_pairs(job.labels, "--label"), max_pools=job.max_pools)
    return json.dumps(document)


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in ("", None, [], {})}


def _pods(job: FlagJob) -> tuple[int, int]:
    """How many pods, and the accelerators of each."""
    if job.pods is not None and job.pods < 1:
        raise _refused("--pods", f"{job.pods} pods; a gang needs at least 1")
    if job.gpus is None:
        return job.pods or 0, job.per_pod or 0
    if job.gpus < 1:
        raise _refused("--gpus", f"{job.gpus} GPUs; give at least 1, or --pods for pods without any")
    if job.pods is not None and job.per_pod is None:
        return job.pods, _share(job.gpus, job.pods, "--pods", "pods")
    per_pod = min(GPUS_PER_POD, job.gpus) if job.per_pod is None else job.per_pod
    if per_pod < 1:
        raise _refused("--per-pod", f"{per_pod} GPUs in each pod; give at least 1")
    count = _share(job.gpus, per_pod, "--per-pod", "GPUs in each pod")
    if job.pods is not None and job.pods != count:
        raise _refused("--pods", f"{job.pods} pods with {per_pod} GPUs each are not {job.gpus} GPUs")
    return count, per_pod


def _share(gpus: int, parts: int, flag: str, what: str) -> int:
    if gpus % parts:
        raise _refused(flag, f"{gpus} GPUs cannot be divided into {parts} {what}; choose numbers that divide")
    return gpus // parts


def _pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise _refused(flag, f"{text!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs


def _slice(text: str) -> dict[str, object]:
    size, colon, level = text.partition(":")
    if not colon or not level or not re.fullmatch(r"-?\d{1,9}", size):
        raise _refused("--slice", f"{text!r} is not SIZE:LEVEL, as in 16:rack")
    return {"size": int(size), "level": level}


def _refused(flag: str, message: str) -> InvalidArgument:
    return InvalidArgument(message, reason="FLAG_INVALID", path=flag)


def name_of(command: Sequence[str]) -> str:
    """A name for a command: `python -m train.py --lr 1` is `train`."""
    words = [word for word in command if not word.startswith("-")]
    program = next((word for word in words if re.search(r"\.(py|sh|jl|R)$", word)), words[0] if words else "")
    stem = re.sub(r"\.[A-Za-z]{1,3}$", "", program.rpartition("/")[2]).lower()
    return re.sub(r"[^a-z0-9]+", "-", stem)[:NAME_CHARS_MAX].strip("-") or NAME_DEFAULT


def blamed(error: HanseError) -> HanseError:
    """The error on the flag that its path stands for, without a line: the text that has lines was never seen."""
    flag = next((flag for path, flag in _FLAGS if error.path.startswith(path)), error.path)
    return type(error)(error.message, reason=error.reason, path=flag)
