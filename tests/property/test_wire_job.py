"""Any valid spec survives the wire, and any bytes are read fully or refused with a path."""

from contextlib import suppress

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.api.v1 import job_spec_pb2
from hanse.model.beside import Companion, Need, NeedKind
from hanse.model.errors import InvalidArgument
from hanse.model.ids import FlavorName, QueueName
from hanse.model.job import (
    Devices,
    EnvVar,
    Group,
    JobSpec,
    Manifest,
    OnInfrastructure,
    PodSet,
    PodTemplate,
    RestartPolicy,
    Slice,
    Spread,
    Topology,
    Volume,
    VolumeKind,
)
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration
from hanse.wire.job import spec_from_wire, spec_to_wire

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
words = st.lists(texts, max_size=3).map(tuple)
amounts = st.integers(-(2**62), 2**62)
requirements = st.builds(Requirement, texts, st.sampled_from(Operator), words)
selectors = st.builds(Selector, st.lists(st.lists(requirements, max_size=2).map(tuple), max_size=2).map(tuple))
tolerations = st.builds(Toleration, texts, st.booleans(), texts, st.sampled_from(Effect))
topologies = st.builds(
    Topology,
    texts,
    texts,
    st.lists(st.builds(Slice, st.integers(0, 99), *[texts, *[st.booleans()] * 3]), max_size=3).map(tuple),
    texts,
    st.none() | st.builds(Spread, texts, st.integers(-5, 2**40)),
    words,
    st.none() | st.builds(Group, texts, texts),
    st.none() | st.builds(Devices, texts, st.booleans()),
)
volumes = st.builds(Volume, texts, st.sampled_from(VolumeKind), texts, texts, st.booleans())
templates = st.builds(
    PodTemplate,
    texts,
    words,
    words,
    st.lists(st.builds(EnvVar, texts, texts), max_size=2).map(tuple),
    st.lists(volumes, max_size=2).map(tuple),
)
pod_sets = st.builds(
    PodSet,
    name=texts,
    count=st.integers(-5, 2**40),
    min_count=st.integers(-5, 2**40),
    resources=st.builds(Resources, st.dictionaries(texts, amounts, max_size=3)),
    flavors=st.lists(texts.map(FlavorName), max_size=2).map(tuple),
    selector=selectors,
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    topology=topologies,
    template=templates,
)
specs = st.builds(
    JobSpec,
    name=texts,
    queue=texts.map(QueueName),
    pod_sets=st.lists(pod_sets, max_size=3).map(tuple),
    priority_class=texts,
    labels=st.dictionaries(texts, texts, max_size=3),
    duration_s=st.integers(0, 2**40),
    restart=st.builds(
        RestartPolicy,
        st.integers(0, 2**31 - 1),
        st.sampled_from([OnInfrastructure.REQUEUE, OnInfrastructure.FAIL]),
    ),
    max_pools=st.integers(1, 99),
    start_skew_max_s=st.integers(1, 2**31 - 1),
    manifest=st.none() | st.builds(Manifest, texts, texts, texts, texts),
    needs=st.lists(st.builds(Need, st.sampled_from(list(NeedKind)[1:]), texts), max_size=2).map(tuple),
    companions=st.lists(st.builds(Companion, texts, texts, texts), max_size=2).map(tuple),
)


@given(specs)
@settings(max_examples=200, deadline=None)
def test_a_spec_survives_the_wire(spec: JobSpec) -> None:
    data = spec_to_wire(spec).SerializeToString(deterministic=True)
    again = spec_from_wire(job_spec_pb2.JobSpec.FromString(data))
    assert again == spec
    assert spec_to_wire(again).SerializeToString(deterministic=True) == data


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(DecodeError):
        message = job_spec_pb2.JobSpec.FromString(data)
        refusal = refused(message)
        assert refusal is None or refusal.path


def refused(message: job_spec_pb2.JobSpec) -> InvalidArgument | None:
    """Why a message is not read, None if it is."""
    try:
        spec_from_wire(message)
    except InvalidArgument as error:
        return error
    return None
