"""Operators' objects are written so that they read back as the same."""

from hanse.cli.native_objects import object_documents
from hanse.manifests import read_resources, to_yaml

OBJECTS = """
{apiVersion: hanse/v1, kind: Flavor, name: h100, order: 1, labels: {gpu: h100}, description: fast}
---
{apiVersion: hanse/v1, kind: PriorityClass, name: high, value: 0, default: true}
---
{apiVersion: hanse/v1, kind: Cohort, name: lab, parent: all}
---
apiVersion: hanse/v1
kind: Queue
name: research
cohort: lab
quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 8, cpu: 500m, memory: 64Gi}}]
held: true
labels: {team: a}
limits: {pending_jobs_max: 5}
aliases: [team-a, team-b]
"""


def test_what_is_written_reads_back() -> None:
    objects = read_resources(OBJECTS)
    assert read_resources("---\n".join(to_yaml(one) for one in object_documents(objects))) == objects
