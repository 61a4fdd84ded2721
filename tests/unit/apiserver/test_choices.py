"""Why a pool was chosen, in words."""

import pytest

from hanse.apiserver.choices import choice_prose, terms_by_pool
from hanse.store.schema import ChoiceValue, StandingValue

LEVELS = ("block", "rack")
WON = StandingValue("iowa", (1, 16, 512, 0), 2_500, LEVELS)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ((2, 16, 512, 0, 2_500), "1 block against 2 in oslo"),
        ((1, 17, 512, 0, 2_500), "16 racks against 17 in oslo"),
        ((1, 16, 600, 0, 2_500), "512 hosts against 600 in oslo"),
        ((1, 16, 512, 8, 1_000), "0 GPUs left in the smallest domain around it against 8 in oslo"),
        ((1, 16, 512, 0, 3_000), "cost 2.5 against 3 in oslo"),
        ((1, 16, 512, 0, 2_500), "as good as oslo, which this scheduler asks later"),
    ],
)
def test_the_first_term_that_differs_is_said(second: tuple[int, int, int, int, int], words: str) -> None:
    *score, cost = second
    other = StandingValue("oslo", (score[0], score[1], score[2], score[3]), cost, LEVELS)
    assert choice_prose(ChoiceValue(WON, other, 3, 6)) == f"best of 3 pools that held it: {words}"


def test_an_only_choice_is_said_as_such() -> None:
    assert choice_prose(ChoiceValue(WON, None, 1, 6)) == "the only one of 6 pools that held it"
    assert choice_prose(ChoiceValue(WON, None, 1, 1)) == "the only pool asked"


def test_a_pool_without_levels_has_no_terms_of_domains() -> None:
    bare = StandingValue("iowa", (1, 4, 4, 0), 0, ("", ""))
    terms = terms_by_pool({"iowa": ChoiceValue(bare, WON, 2, 2)})
    assert [(t.name, t.value, t.level) for t in terms["iowa"]] == [
        ("hosts", 4, ""),
        ("gpus_left", 0, ""),
        ("cost", 0, ""),
    ]
