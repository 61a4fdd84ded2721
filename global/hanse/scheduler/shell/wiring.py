"""The parts of one replica that hold its state, and how they know each other.

Each part is given what it reads and what it calls, and nothing else; whom a part tells of news is set here, in one
place, since news go in circles: the feed tells the cycle, whose commits the feed then shows.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hanse.apiserver.ports import AuditLog
from hanse.kit.clock import Clock
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.committer import Committer
from hanse.scheduler.shell.cycle import Cycle
from hanse.scheduler.shell.departures import Archive
from hanse.scheduler.shell.events import Recorder
from hanse.scheduler.shell.feed import Feed
from hanse.scheduler.shell.fleet import Fleet
from hanse.scheduler.shell.gauges import Gauges
from hanse.scheduler.shell.leaves import Leaves
from hanse.scheduler.shell.replica_config import ReplicaConfig
from hanse.scheduler.shell.report_writer import ReportWriter
from hanse.scheduler.shell.retention import Retainer
from hanse.scheduler.shell.roots import Roots
from hanse.scheduler.shell.session import Session
from hanse.scheduler.shell.states import States
from hanse.scheduler.shell.summaries import Summaries
from hanse.scheduler.shell.traces import Traces
from hanse.scheduler.shell.views import Views
from hanse.store.contract import Store
from hanse.store.moves import WriteId
from hanse.store.traces import JobTraces


@dataclass(frozen=True, slots=True)
class Outside:
    """What a replica is given, what it is called this time, and the world that it fills."""

    config: ReplicaConfig
    store: Store
    world: World
    clock: Clock
    rng: random.Random
    nonce: str
    write_id: WriteId


@dataclass(frozen=True, slots=True)
class Told:
    """Whom the parts tell.

    Attributes:
        changed: there may be something to schedule.
        heard: a pool has said something of its capacity.
        followed: the feed has brought the world forward.
        joined: the replica is a member under a new lease.
    """

    changed: Callable[[], None]
    heard: Callable[[], None]
    followed: Callable[[], None]
    joined: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Parts:
    """See the module."""

    outside: Outside
    job_traces: JobTraces
    summaries: Summaries
    states: States
    feed: Feed
    roots: Roots
    committer: Committer
    cycle: Cycle
    reports: ReportWriter
    fleet: Fleet
    recorder: Recorder
    leaves: Leaves
    retainer: Retainer | None

    def gauges(self, streams: Callable[[], Sequence[Session]]) -> Gauges:
        """What tells of these parts, and of the streams that are served now."""
        own = self.outside
        return Gauges(own.world, self.states, self.committer, self.cycle, own.clock, nonce=own.nonce, streams=streams)


def wired(outside: Outside, told: Told, archive: Archive | None, audit: AuditLog | None) -> Parts:
    """The parts of a replica; none of them does anything before it is run."""
    store, world, clock = outside.store, outside.world, outside.clock
    states = States(store, told.changed)
    feed = Feed(store, world, clock, told.followed)
    job_traces = JobTraces(store)
    traces, views = Traces(job_traces, clock), Views()
    committer = _committer(outside, feed, states, traces, views)
    cycle = _cycle(outside, feed, states, committer, traces)
    recorder = _recorder(outside, audit)
    feed.on_news, feed.on_gap = recorder.key_changed, recorder.gap
    states.on_news, states.on_gap = recorder.job_moved, recorder.gap
    cycle.on_look = recorder.look
    return Parts(
        outside,
        job_traces=job_traces,
        summaries=Summaries(world, clock, outside.config.federation, told.heard),
        states=states,
        feed=feed,
        roots=_roots(outside, told.joined),
        committer=committer,
        cycle=cycle,
        reports=ReportWriter(store, world, clock, traces, views, write_id=outside.write_id),
        fleet=_fleet(outside, states, cycle),
        recorder=recorder,
        leaves=_leaves(outside),
        retainer=_retainer(outside, states, archive),
    )


def _committer(outside: Outside, feed: Feed, states: States, traces: Traces, views: Views) -> Committer:
    return Committer(
        outside.store,
        outside.world,
        feed,
        states,
        outside.clock,
        traces,
        views,
        nonce=outside.nonce,
        limits=outside.config.limits,
        write_id=outside.write_id,
    )


def _cycle(outside: Outside, feed: Feed, states: States, committer: Committer, traces: Traces) -> Cycle:
    return Cycle(
        outside.store,
        outside.world,
        feed,
        states,
        committer,
        outside.clock,
        outside.rng,
        traces,
        nonce=outside.nonce,
        limits=outside.config.limits,
        interval_s=outside.config.cycle_interval_s,
        write_id=outside.write_id,
    )


def _roots(outside: Outside, joined: Callable[[], None]) -> Roots:
    config = outside.config
    return Roots(
        outside.store,
        outside.world,
        outside.clock,
        replica=config.replica,
        nonce=outside.nonce,
        address=config.address,
        schedules=config.schedules,
        lease_ttl_s=config.lease_ttl_s,
        on_join=joined,
    )


def _leaves(outside: Outside) -> Leaves:
    return Leaves(
        outside.store,
        outside.world,
        outside.clock,
        replica=outside.config.replica,
        nonce=outside.nonce,
        write_id=outside.write_id,
    )


def _recorder(outside: Outside, audit: AuditLog | None) -> Recorder:
    config = outside.config
    return Recorder(
        outside.world,
        outside.clock,
        replica=config.replica,
        nonce=outside.nonce,
        summary_age_max_s=config.limits.summary_age_max_s,
        audit=audit,
    )


def _fleet(outside: Outside, states: States, cycle: Cycle) -> Fleet:
    return Fleet(
        outside.world,
        states,
        outside.clock,
        nonce=outside.nonce,
        limits=outside.config.limits,
        avoided=cycle.backlog.avoided,
    )


def _retainer(outside: Outside, states: States, archive: Archive | None) -> Retainer | None:
    """Who drops jobs that ended long ago: only where they are archived, and not in a replica that only serves."""
    if archive is None or not outside.config.schedules:
        return None
    return Retainer(
        outside.store,
        outside.world,
        states,
        outside.clock,
        archive,
        nonce=outside.nonce,
        retention=outside.config.retention,
    )
