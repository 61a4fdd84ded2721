"""Why a job is where it is: the terms that were written down when its pool was chosen, as data and in words."""

from collections.abc import Iterator
from typing import Final

from hanse.api.v1 import explanation_pb2
from hanse.apiserver.rows import JobRow
from hanse.store.schema import ChoiceValue, StandingValue

COARSEST: Final = "domains_coarsest"
FINEST: Final = "domains_finest"
HOSTS: Final = "hosts"
COST: Final = "cost"
BROKEN: Final = "broken"
HOST_FREE: Final = "host_free_gpus"
POOL_ROOM: Final = "pool_room"
LEFT: Final = "gpus_left"
COST_UNIT: Final = 1_000


def choices_of(row: JobRow) -> dict[str, ChoiceValue]:
    """By pool that was chosen, what is known of the choice."""
    choices = (part.binding.choice for part in row.parts if part.binding is not None)
    return {choice.won.pool: choice for choice in choices if choice is not None}


def terms_by_pool(choices: dict[str, ChoiceValue]) -> dict[str, tuple[explanation_pb2.Term, ...]]:
    """The terms of pools that were compared: those that won, and those that came next."""
    compared = (one for choice in choices.values() for one in (choice.second, choice.won))
    return {one.pool: tuple(_terms(one)) for one in compared if one is not None}


def choice_prose(choice: ChoiceValue) -> str:
    """`best of 3 pools that held it: 1 block against 2 in dallas-h100`."""
    if choice.second is None:
        return f"the only one of {choice.asked:,} pools that held it" if choice.asked > 1 else "the only pool asked"
    won, second = list(_terms(choice.won)), {term.name: term for term in _terms(choice.second)}
    differing = (t for t in won if t.name in second and t.name != LEFT and t.value != second[t.name].value)
    decided = next(differing, None)
    best = f"best of {choice.fitting:,} pools that held it"
    if decided is None or decided.value > second[decided.name].value:  # a term that is not written down came before
        return f"{best}: as good as {choice.second.pool} but for finer terms, or for who is asked first"
    return f"{best}: {_words(decided)} against {_amount(second[decided.name])} in {choice.second.pool}"


def _terms(one: StandingValue) -> Iterator[explanation_pb2.Term]:
    coarsest, finest, hosts, left = one.score
    if one.levels[0]:
        yield explanation_pb2.Term(name=COARSEST, value=coarsest, level=one.levels[0])
        yield explanation_pb2.Term(name=FINEST, value=finest, level=one.levels[1])
    yield explanation_pb2.Term(name=HOSTS, value=hosts)
    yield explanation_pb2.Term(name=COST, value=one.cost)
    for name, value in zip((BROKEN, HOST_FREE) if hosts == 1 else (POOL_ROOM,), one.tight, strict=False):
        yield explanation_pb2.Term(name=name, value=value)
    yield explanation_pb2.Term(name=LEFT, value=left)


def _amount(term: explanation_pb2.Term) -> str:
    return f"{term.value / COST_UNIT:g}" if term.name == COST else f"{term.value:,}"


def _words(term: explanation_pb2.Term) -> str:
    """A term that decided: `1 block`, `16 racks`, `cost 2.5`."""
    amount = _amount(term)
    plural = "" if term.value == 1 else "s"
    match term.name:
        case "cost":
            return f"cost {amount}"
        case "broken":
            return f"{amount} whole thing{plural} broken up"
        case "host_free_gpus":
            return f"{amount} free GPU{plural} on the host"
        case "pool_room":
            return f"room for {amount} such pod{plural} in the pool"
        case "hosts":
            return f"{amount} host{plural}"
        case _:
            return f"{amount} {term.level}{plural}"
