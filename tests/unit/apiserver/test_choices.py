"""Why a pool was chosen, in words."""

import pytest

from hanse.apiserver.choices import choice_prose, terms_by_pool
from hanse.store.schema import ChoiceValue, StandingValue

LEVELS = ("block", "rack")
WON = StandingValue("iowa", (1, 16, 512, 0), 2_500, LEVELS, [600])


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ((2, 16, 512, 0, 2_500), "1 block against 2 in oslo"),
        ((1, 17, 512, 0, 2_500), "16 racks against 17 in oslo"),
        ((1, 16, 600, 0, 2_500), "512 hosts against 600 in oslo"),
        ((1, 16, 512, 0, 3_000), "cost 2.5 against 3 in oslo"),
        ((1, 16, 512, 0, 2_500, 900), "room for 600 such pods in the pool against 900 in oslo"),
        ((1, 16, 512, 8, 2_500), "as good as oslo but for finer terms, or for who is asked first"),
        ((1, 15, 512, 8, 2_500), "as good as oslo but for finer terms, or for who is asked first"),
    ],
)
def test_the_first_term_that_differs_is_said(second: tuple[int, ...], words: str) -> None:
    coarsest, finest, hosts, left, cost, *tight = second
    other = StandingValue("oslo", (coarsest, finest, hosts, left), cost, LEVELS, tight or [600])
    assert choice_prose(ChoiceValue(WON, other, 3, 6)) == f"best of 3 pools that held it: {words}"


def test_an_only_choice_is_said_as_such() -> None:
    assert choice_prose(ChoiceValue(WON, None, 1, 6)) == "the only one of 6 pools that held it"
    assert choice_prose(ChoiceValue(WON, None, 1, 1)) == "the only pool asked"


def test_a_pool_without_levels_has_no_terms_of_domains() -> None:
    bare = StandingValue("iowa", (1, 4, 4, 0), 0, ("", ""))
    terms = terms_by_pool({"iowa": ChoiceValue(bare, WON, 2, 2)})
    assert [(t.name, t.value, t.level) for t in terms["iowa"]] == [
        ("hosts", 4, ""),
        ("cost", 0, ""),
        ("gpus_left", 0, ""),
    ]


def test_what_one_host_holds_is_told_by_what_it_breaks() -> None:
    won = StandingValue("iowa", (1, 1, 1, 3), 0, LEVELS, [0, 4])
    other = StandingValue("oslo", (1, 1, 1, 0), 0, LEVELS, [2, 1])
    assert choice_prose(ChoiceValue(won, other, 2, 2)).endswith("0 whole things broken up against 2 in oslo")
