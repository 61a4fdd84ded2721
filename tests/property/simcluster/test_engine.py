"""What holds of a simulated cluster whatever happens to it, and that it can be restored to the letter."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import Counts, Fact, FactKind
from hanse.simcluster.inputs import GangId, Input, unpack
from hanse.simcluster.snapshot import SNAPSHOT_DECODER, dump, restore
from tests.property.simcluster.worlds import BEGIN_MS, gangs, new_engine, pods_to_remove, small_spec, steps

PATIENT = settings(max_examples=60, deadline=None)


def run(engine: Engine, script: list[tuple[int, Input]]) -> list[tuple[int, Input]]:
    """Do everything at its time; gives the times."""
    now_ms, done = engine.now_ms, []
    for wait_ms, change in script:
        now_ms += wait_ms
        engine.apply(change, now_ms)
        done.append((now_ms, change))
    return done


def check_amounts(engine: Engine) -> None:
    """What is free is what is offered, minus what runs, pod by pod."""
    table = engine.nodes
    left = table.allocatable.copy()
    for foreign in engine.foreign.values():
        for node in foreign.nodes.tolist():
            left[node] -= table.request(foreign.resources).amounts
    for gang in engine.gangs.values():
        number = 0
        for held in gang.hold.sets:
            for node in unpack(held.nodes).tolist():
                if gang.occupying[number]:
                    left[node] -= table.request(held.resources).amounts
                number += 1
    assert np.array_equal(left, table.free)


def check_pods(engine: Engine) -> None:
    """Counts are those of the pods; what occupies a node has one that lives."""
    for key, gang in engine.gangs.items():
        pods = list(gang.existing_pods())
        counts = gang.counts
        assert len(pods) == counts.pending + counts.running + counts.succeeded + counts.failed + counts.stopping
        assert len(pods) + counts.missing == gang.created <= len(gang.nodes)
        assert all(engine.nodes.alive[node] for node in gang.nodes[gang.occupying].tolist()), key


def final_counts(facts: list[Fact]) -> dict[GangId, Counts]:
    """The last counts that the pod log tells of each gang."""
    return {fact.gang: fact.counts for fact in facts if fact.gang is not None and fact.counts is not None}


@PATIENT
@given(script=steps)
def test_amounts_and_counts_are_exact_after_every_step(script: list[tuple[int, Input]]) -> None:
    engine = new_engine(small_spec(busy=0.3))
    for step in script:
        run(engine, [step])
        check_amounts(engine)
        check_pods(engine)


@PATIENT
@given(script=steps, pod=st.integers(0, 7), gang=gangs)
def test_the_pod_log_tells_all_that_happened_to_pods(script: list[tuple[int, Input]], pod: int, gang: GangId) -> None:
    engine = new_engine()
    run(engine, script)
    removal = pods_to_remove(engine, gang, pod)
    if removal is not None:
        engine.apply(removal, engine.now_ms)
    facts = engine.take_facts()
    assert [fact.seq for fact in facts] == sorted({fact.seq for fact in facts})
    assert [fact.at_ms for fact in facts] == sorted(fact.at_ms for fact in facts)
    told = final_counts(facts)
    for key, found in engine.gangs.items():
        if found.created:
            assert told[key] == found.counts
            ended = [fact for fact in facts if fact.gang == key][-1].kind == FactKind.ENDED
            assert ended == (found.counts.occupying == 0)


@PATIENT
@given(script=steps, looks=st.lists(st.integers(1, 97), max_size=60))
def test_it_does_not_matter_how_often_somebody_looks(script: list[tuple[int, Input]], looks: list[int]) -> None:
    seldom, often = new_engine(), new_engine()
    done = run(seldom, script)
    end_ms = seldom.now_ms + 2_000
    seldom.advance(end_ms)
    times = sorted({BEGIN_MS + sum(looks[:i]) for i in range(len(looks))} | {at for at, _ in done})
    for at in times:
        often.advance(at)
        for when, change in done:
            if when == at:
                often.apply(change, at)
    often.advance(end_ms)
    assert often.take_facts() == seldom.take_facts()
    assert dump(often) == dump(seldom)


@PATIENT
@given(before=steps, after=steps)
def test_a_snapshot_restores_a_cluster_to_the_letter(
    before: list[tuple[int, Input]], after: list[tuple[int, Input]]
) -> None:
    kept = new_engine(small_spec(busy=0.2))
    run(kept, before)
    kept.take_facts()
    back = restore(SNAPSHOT_DECODER.decode(dump(kept)))
    assert dump(back) == dump(kept)
    check_amounts(back)
    for engine in (kept, back):
        run(engine, after)
        engine.advance(engine.now_ms + 1_000)
    assert back.take_facts() == kept.take_facts()
    assert dump(back) == dump(kept)


@PATIENT
@given(script=steps)
def test_nothing_runs_for_ever_by_itself(script: list[tuple[int, Input]]) -> None:
    engine = new_engine()
    run(engine, script)
    engine.advance(engine.now_ms + 10_000)
    assert engine.next_wakeup() is None
    assert all(gang.counts.occupying == 0 for gang in engine.gangs.values())


@PATIENT
@given(script=steps)
def test_watchers_hear_of_everything_that_changed(script: list[tuple[int, Input]]) -> None:
    engine = new_engine()
    version, seen = engine.version, {key: gang.counts for key, gang in engine.gangs.items()}
    for step in script:
        run(engine, [step])
        changed = [thing for thing, _ in engine.changed_since(version)]
        for key, gang in engine.gangs.items():
            if seen.get(key, Counts()) != gang.counts:
                assert key in changed
        version, seen = engine.version, {key: gang.counts for key, gang in engine.gangs.items()}
        assert engine.changed_since(version) == []
