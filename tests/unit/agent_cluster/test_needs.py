"""What a cluster lacks: asked for by name, as metadata alone, and not for every job anew."""

from pathlib import Path

import pytest

from hanse.agent.cluster.kubernetes.needs import Needs
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.model.beside import Need, NeedKind
from tests.unit.agent_cluster.api_server import serving, whole

SECRET = Need(NeedKind.SECRET, "hf-token")
CLASS = Need(NeedKind.PRIORITY_CLASS, "high")
THERE = whole({"metadata": {"name": "hf-token"}})
GONE = whole({"kind": "Status", "reason": "NotFound"}, 404)
FORBIDDEN = whole({"kind": "Status", "reason": "Forbidden"}, 403)


async def test_what_is_missing_is_named_with_its_namespace(tmp_path: Path) -> None:
    async with serving(tmp_path, GONE) as (api, script):
        needs = Needs(api)
        assert await needs.lacking("jobs", [SECRET, CLASS]) == (
            "Secret hf-token in namespace jobs",
            "PriorityClass high",
        )
    assert sorted(path for path, _ in script.asked) == [
        "/api/v1/namespaces/jobs/secrets/hf-token",
        "/apis/scheduling.k8s.io/v1/priorityclasses/high",
    ]
    assert all("PartialObjectMetadata" in accept for accept in script.accepted), "no content is asked for"


async def test_what_was_found_is_not_asked_for_again(tmp_path: Path) -> None:
    async with serving(tmp_path, THERE) as (api, script):
        needs = Needs(api)
        assert await needs.lacking("jobs", [SECRET]) == ()
        assert await needs.lacking("jobs", [SECRET]) == ()
    assert len(script.asked) == 1


async def test_what_we_may_not_look_at_is_taken_to_be_there(tmp_path: Path) -> None:
    async with serving(tmp_path, FORBIDDEN) as (api, _):
        assert await Needs(api).lacking("jobs", [SECRET]) == ()


@pytest.mark.parametrize(
    ("asked", "queue", "namespace"),
    [
        ("ml", "team", "ml"),
        ("", "team", "hanse-jobs-team"),
        ("", "", "hanse-jobs"),
        ("", "a.b", "hanse-jobs-a-b-"),
        ("", "x" * 70, "hanse-jobs-xxxx"),
    ],
)
def test_each_queue_has_a_namespace_of_its_own(asked: str, queue: str, namespace: str) -> None:
    found = KubernetesSettings().namespace_for(asked, queue)
    assert found.startswith(namespace)
    assert len(found) <= 63
    assert "." not in found


def test_queues_of_similar_names_do_not_meet() -> None:
    names = ("a.b", "a-b", "x" * 70, "x" * 71)
    settings = KubernetesSettings()
    assert len({settings.namespace_for("", name) for name in names}) == len(names)
    assert KubernetesSettings(queue_namespaces=False).namespace_for("", "team") == "hanse-jobs"
