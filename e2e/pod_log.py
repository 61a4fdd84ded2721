"""Writes down what an API server says about pods: an auditor that shares nothing with the product.

A thread reads a raw watch of all pods from a version on. What is kept is what no later event can undo: when each pod
object (by uid) was first seen on a node, when it was last seen to occupy it, and what it was called.
"""

import json
import threading
import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from e2e.api_server import ApiServer

JOB: Final = "hanse.dev/job"
ATTEMPT: Final = "hanse.dev/attempt"
RANK: Final = "hanse.dev/rank"
POD_SET: Final = "hanse.dev/pod-set"
ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass
class Seen:
    """One pod object on a node; times are the auditor's."""

    job: str
    attempt: int
    pod_set: str
    rank: int
    node: str
    bound_s: float
    ended_s: float | None = None


@dataclass
class PodLog:
    """See the module."""

    pods: dict[str, Seen] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    def of(self, job: str, attempt: int | None = None) -> list[Seen]:
        """What was on nodes for a job."""
        return [seen for seen in self.pods.values() if seen.job == job and attempt in (None, seen.attempt)]

    def check(self) -> None:
        """No rank ran twice in one attempt, and no attempt began before the one before it had ended."""
        by_rank: dict[tuple[str, int, str, int], list[Seen]] = {}
        for seen in self.pods.values():
            by_rank.setdefault((seen.job, seen.attempt, seen.pod_set, seen.rank), []).append(seen)
        assert {key: found for key, found in by_rank.items() if len(found) > 1} == {}
        for job in {seen.job for seen in self.pods.values()}:
            self._check_attempts(job)

    def _check_attempts(self, job: str) -> None:
        attempts = sorted({seen.attempt for seen in self.of(job)})
        for before, after in pairwise(attempts):
            ends = [seen.ended_s for seen in self.of(job, before)]
            begins = min(seen.bound_s for seen in self.of(job, after))
            assert all(end is not None and end <= begins for end in ends), f"attempt {after} of {job} began too early"

    def take(self, event: Mapping[str, Any]) -> None:
        """An event of the watch."""
        pod, now_s = event["object"], time.monotonic()
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        labels = meta.get("labels", {})
        if not node or JOB not in labels or RANK not in labels:
            return
        named = labels[JOB], int(labels[ATTEMPT]), labels.get(POD_SET, ""), int(labels[RANK])
        seen = self.pods.setdefault(meta["uid"], Seen(*named, node, now_s))
        if seen.ended_s is None and (event["type"] == "DELETED" or pod["status"].get("phase") in ENDED):
            seen.ended_s = now_s

    def relist(self, pods: list[dict[str, Any]]) -> None:
        """The watch has a gap: what is gone has ended in it."""
        there = {pod["metadata"]["uid"] for pod in pods}
        for uid, seen in self.pods.items():
            if uid not in there and seen.ended_s is None:
                seen.ended_s = time.monotonic()
        for pod in pods:
            self.take({"type": "MODIFIED", "object": pod})


@contextmanager
def pod_log(plane: ApiServer) -> Iterator[PodLog]:
    """Everything about pods from now on."""
    log = PodLog()
    thread = threading.Thread(target=_follow, args=(plane, log), name="pod-log", daemon=True)
    thread.start()
    try:
        yield log
    finally:
        log.stopped.set()
        thread.join()


def _follow(plane: ApiServer, log: PodLog) -> None:
    version = ""
    while not log.stopped.is_set():
        try:
            version = _follow_once(plane, log, version)
        except (urllib.error.URLError, OSError):
            log.stopped.wait(0.2)


def _follow_once(plane: ApiServer, log: PodLog, version: str) -> str:
    """Where to go on, "" where everything has to be listed first."""
    if not version:
        listed = plane.call("GET", "/api/v1/pods")
        log.relist(listed["items"])
        version = listed["metadata"]["resourceVersion"]
    for line in plane.lines(f"/api/v1/pods?watch=1&resourceVersion={version}&timeoutSeconds=2"):
        event = json.loads(line)
        if event["type"] == "ERROR":
            return ""
        log.take(event)
        version = event["object"]["metadata"]["resourceVersion"]
    return version
