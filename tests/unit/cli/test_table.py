"""Tables fit their paper, and cut what says least first."""

from hanse.cli.paper import PLAIN_PAPER, Paper, Tone
from hanse.cli.table import Column, table

COLUMNS = [Column("name", cut=2), Column("queue", cut=1), Column("pods", right=True)]


def test_columns_are_as_wide_as_they_need() -> None:
    assert table(COLUMNS, [["a", "research", "8"], ["bb", "x", "1,024"]], PLAIN_PAPER) == [
        "name  queue      pods",
        "a     research      8",
        "bb    x         1,024",
    ]


def test_the_first_turn_is_cut_to_its_least_before_the_second() -> None:
    row = ["n" * 20, "q" * 20, "8"]
    assert table(COLUMNS, [row], Paper(width=44))[1] == f"{'n' * 20}  {'q' * 15}…     8"
    assert table(COLUMNS, [row], Paper(width=30))[1] == f"{'n' * 13}…  {'q' * 7}…     8"


def test_nothing_is_cut_in_a_pipe() -> None:
    assert table(COLUMNS, [["n" * 90, "q", "8"]], Paper(cut=False))[1] == f"{'n' * 90}  q         8"


def test_a_column_without_title_and_text_takes_no_room() -> None:
    columns = [Column("pool"), Column(""), Column("free", right=True)]
    assert table(columns, [["iowa", "", "8"]], PLAIN_PAPER) == ["pool  free", "iowa     8"]
    assert table(columns, [["iowa", "stale", "8"]], PLAIN_PAPER)[1] == "iowa  stale     8"


def test_colour_stands_beside_the_padding() -> None:
    lines = table([Column("state"), Column("n")], [[("UP", Tone.GOOD), "1"]], Paper(colour=True))
    assert lines[1] == "\x1b[36mUP\x1b[0m     1"
