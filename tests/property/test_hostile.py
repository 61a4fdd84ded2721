"""Whatever comes over the links, from the bus or from whoever wants to join is read whole, or refused in words.

`HANSE_FUZZ_EXAMPLES` says how many inputs each parser is tried with: a few hundred in CI, and a million in all when
it is run for that (docs/scenarios.md says what came of it).
"""

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from hanse.bus.contract import BusMessage
from hanse.kit.bundle import Bundle, Coding, Frame
from hanse.kit.stream import Stream, StreamClosed
from hanse.kit.tls import Identity, Kind
from hanse.kit.trust.asking import checked_request, new_request
from hanse.kit.trust.authority import begin, pins_of
from hanse.kit.trust.shown import shown_by
from hanse.kit.trust.token import JoinToken
from hanse.link.v1 import link_pb2, peer_pb2
from hanse.model.errors import HanseError, InvalidArgument
from hanse.model.ids import PoolName
from hanse.model.lifecycle import State
from hanse.model.report import GangStatus
from hanse.shape import ShapeError, decode, encode
from hanse.wire.link import from_agent, from_replica
from hanse.wire.parts import epoch_to_wire
from hanse.wire.peer import (
    ask_from_wire,
    events_from_wire,
    fetch_from_wire,
    piece_from_wire,
    ring_page_from_wire,
    summaries_from_wire,
    vitals_from_wire,
)
from tests.property.hostile import damaged, fuzzed, fuzzed_slowly, messages
from tests.unit.scheduler.worlds import inventory
from tests.unit.scheduler_shell.puppet import DEADLINE_S, stage, submit, wait_state
from tests.unit.scheduler_shell.test_peers import FEDERATION, POOL, taker

OSLO = Identity(Kind.AGENT, "oslo")
SHAPE = encode(inventory({"r1": 4, "r2": 3}).shape())
_, REQUEST = new_request(OSLO)


def _authority() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = begin(Path(folder) / "ca.pem", Path(folder) / "key.pem", "hanse", now_ms=1_800_000_000_000)
        return ssl.PEM_cert_to_DER_cert(made.certificate.decode())


AUTHORITY = _authority()

CONVERTERS: dict[str, tuple[type[Message], Callable[[Message], object]]] = {
    "agent": (link_pb2.AttachRequest, from_agent),  # type: ignore[dict-item]
    "replica": (link_pb2.AttachResponse, from_replica),  # type: ignore[dict-item]
    "ask": (peer_pb2.AskPoolRequest, ask_from_wire),  # type: ignore[dict-item]
    "piece": (peer_pb2.AskPoolResponse, piece_from_wire),  # type: ignore[dict-item]
    "fetch": (peer_pb2.FetchSummariesRequest, fetch_from_wire),  # type: ignore[dict-item]
    "summaries": (peer_pb2.FetchSummariesResponse, summaries_from_wire),  # type: ignore[dict-item]
    "events": (peer_pb2.FetchEventsRequest, events_from_wire),  # type: ignore[dict-item]
    "ring": (peer_pb2.FetchEventsResponse, ring_page_from_wire),  # type: ignore[dict-item]
    "vitals": (peer_pb2.FetchVitalsResponse, vitals_from_wire),  # type: ignore[dict-item]
}


def refusal(read: Callable[[], object]) -> str:
    """What a parser says of what it does not take; "" of what it takes."""
    try:
        read()
    except HanseError as error:
        return f"{error.reason} {error}"
    return ""


@pytest.mark.parametrize("name", CONVERTERS)
def test_a_message_is_converted_or_refused(name: str) -> None:
    kind, convert = CONVERTERS[name]

    @fuzzed
    @given(messages(kind))
    def tried(message: Message) -> None:
        assert "\n" not in refusal(lambda: convert(message))

    tried()


@pytest.mark.parametrize("name", ["agent", "replica"])
def test_bytes_are_a_message_or_none(name: str) -> None:
    kind, convert = CONVERTERS[name]

    @fuzzed
    @given(st.one_of(st.binary(max_size=200), messages(kind).flatmap(lambda m: damaged(m.SerializeToString()))))
    def tried(data: bytes) -> None:
        with suppress(DecodeError, InvalidArgument):
            convert(kind.FromString(data))

    tried()


@fuzzed
@given(st.one_of(st.binary(max_size=300), damaged(SHAPE)))
def test_a_shape_is_read_to_what_is_written_again_or_refused(data: bytes) -> None:
    try:
        shape = decode(data)
    except ShapeError:
        return
    assert decode(encode(shape)).key == shape.key


@fuzzed
@given(
    st.sampled_from(["p0", "p1", "../p0", ""]),
    st.sampled_from(["summary", "capacity", "presence", "x/y"]),
    st.one_of(
        st.binary(max_size=200),
        messages(link_pb2.Summary).map(lambda m: m.SerializeToString()),
        damaged(SHAPE).map(
            lambda shape: link_pb2.Summary(
                pool="p0", epoch=link_pb2.Epoch(incarnation=1, revision=5), sequence=1, shape=shape, empty_shape=shape
            ).SerializeToString()
        ),
    ),
)
def test_what_lies_on_the_bus_leaves_a_world_that_can_be_planned_from(pool: str, kind: str, payload: bytes) -> None:
    world, summaries, _ = taker()
    world.put_agent(POOL, 5)
    world.revision = 9
    summaries._hear(BusMessage(f"hanse/v1/{FEDERATION}/pools/{pool}/{kind}", payload, retained=True))
    summaries.look()
    assert world.ledger(PoolName("p1")).summary is None or pool == "p1"
    known = world.ledger(POOL).summary
    if known is not None:
        encode(known.shape)
        world.ledger(POOL).planned()


@fuzzed
@given(st.one_of(st.binary(max_size=400), damaged(REQUEST)))
def test_a_signing_request_is_whole_or_refused(data: bytes) -> None:
    said = refusal(lambda: checked_request(data, OSLO))
    assert said.startswith("CSR_INVALID ") if said else data[: len(REQUEST)] == REQUEST
    assert "\n" not in said


TOKENS = st.one_of(
    st.text(max_size=200), damaged(JoinToken.new("ab" * 32).text.encode()).map(lambda b: b.decode("latin-1"))
)


@fuzzed
@given(TOKENS)
def test_a_token_is_one_or_is_refused(text: str) -> None:
    said = refusal(lambda: JoinToken.read(text))
    assert said.startswith("TOKEN_INVALID ") if said else JoinToken.read(text).text == text.strip()


@fuzzed
@given(st.one_of(st.binary(max_size=300), damaged(AUTHORITY)))
def test_a_certificate_is_read_or_stands_for_nobody(der: bytes) -> None:
    pins_of([der])
    shown = shown_by({"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(der).encode()]})
    assert shown is None or shown.identity is None


STATUSES = link_pb2.Status.values()
BODIES = st.one_of(
    st.none(), st.binary(max_size=20), messages(link_pb2.AttachRequest).map(lambda m: m.SerializeToString())
)
TAKEN = st.sampled_from([0, 0, 1, 300, -5, 2**31 - 1])
FRAMES = st.lists(st.builds(Frame, st.integers(-2, 6), BODIES, TAKEN, st.booleans()), max_size=20)
CODING = Coding(link_pb2.AttachResponse.SerializeToString, link_pb2.AttachRequest.FromString)


class _Played:
    def __init__(self, frames: list[Frame]) -> None:
        self.frames = frames
        self.sent = 0

    async def send(self, frames: object) -> None:
        self.sent += 1

    async def receive(self) -> list[Frame]:
        if not self.frames:
            raise StreamClosed("no more")
        now, self.frames = self.frames[:3], self.frames[3:]
        return now

    def close(self) -> None:
        pass


@fuzzed
@given(FRAMES)
def test_a_bundle_of_any_frames_ends_and_its_streams_with_it(frames: list[Frame]) -> None:
    async def carried() -> None:
        tasks: list[asyncio.Task[None]] = []

        async def read(stream: Stream[link_pb2.AttachResponse, link_pb2.AttachRequest]) -> None:
            with suppress(StreamClosed):
                while await stream.receive():
                    pass

        bundle = Bundle(_Played(frames), CODING, lambda stream: tasks.append(asyncio.create_task(read(stream))))
        async with asyncio.timeout(DEADLINE_S):
            await bundle.run()
            await asyncio.gather(*tasks)
        assert len(bundle) == 0

    asyncio.run(carried())


@fuzzed_slowly
@given(st.lists(messages(link_pb2.Reports), min_size=1, max_size=4))
def test_reports_of_any_kind_stop_no_report_of_others(told: list[link_pb2.Reports]) -> None:
    async def written() -> None:
        async with stage() as found:
            replica = await found.replica()
            owner = await found.puppet(replica, POOL, {"r1": 4}).attached()
            await owner.summary(owner.epoch.revision)
            job = await submit(found.store, 1, 2)
            key = await owner.bound(job)
            for n, reports in enumerate(told):  # each by an agent of its own: what cannot be read ends a stream
                thief = await found.puppet(replica, f"q{n}", {"r1": 4}).attached()
                reports.epoch.CopyFrom(epoch_to_wire(thief.epoch))
                for report in reports.reports:
                    report.job = report.job or job
                    report.status, report.reason = STATUSES[abs(report.status) % len(STATUSES)], 0
                await thief.stream.send(link_pb2.AttachRequest(reports=reports))
            await owner.report(key, GangStatus.RUNNING)
            assert (await wait_state(found.store, job, State.RUNNING)).attempt == key.attempt

    asyncio.run(written())
