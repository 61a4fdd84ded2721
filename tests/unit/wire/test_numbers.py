"""The wire's numbers are the model's: a new value on one side is missed on the other side here."""

from enum import IntEnum

import pytest
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from hanse.api.v1 import event_pb2, job_pb2, job_spec_pb2, pool_pb2, selector_pb2
from hanse.apiserver.ports import PoolHealth
from hanse.model.job import OnInfrastructure, OnPoolLost, VolumeKind
from hanse.model.lifecycle import State
from hanse.model.occurrence import OccurrenceKind
from hanse.model.selectors import Effect, Operator


@pytest.mark.parametrize(
    ("kind", "wire", "prefix"),
    [
        (State, job_pb2.JobState, "JOB_STATE_"),
        (OccurrenceKind, event_pb2.EventKind, "EVENT_KIND_"),
        (VolumeKind, job_spec_pb2.VolumeKind, "VOLUME_KIND_"),
        (OnInfrastructure, job_spec_pb2.OnInfrastructure, "ON_INFRASTRUCTURE_"),
        (OnPoolLost, job_spec_pb2.OnPoolLost, "ON_POOL_LOST_"),
        (Operator, selector_pb2.Operator, "OPERATOR_"),
        (Effect, selector_pb2.TaintEffect, "TAINT_EFFECT_"),
        (PoolHealth, pool_pb2.PoolHealth, "POOL_HEALTH_"),
    ],
)
def test_the_wire_has_the_models_numbers(kind: type[IntEnum], wire: EnumTypeWrapper, prefix: str) -> None:
    assert {prefix + member.name: member.value for member in kind} == dict(wire.items())
