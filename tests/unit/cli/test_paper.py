"""What a surface can show, and what never reaches it."""

import pytest

from hanse.cli.paper import PLAIN_PAPER, Paper, Tone, columns_of, cut_to, paper_of, wrapped


class Stream:
    """Something like stdout."""

    def __init__(self, encoding: str | None, *, terminal: bool) -> None:
        self.encoding = encoding
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "colour"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals_unless_somebody_says_so(
    terminal: bool, environment: dict[str, str], colour: bool
) -> None:
    assert paper_of(Stream("utf-8", terminal=terminal), environment, columns=120).colour is colour


def test_a_pipe_is_80_columns_wide_and_cuts_nothing() -> None:
    paper = paper_of(Stream("UTF-8", terminal=False), {}, columns=200)
    assert (paper.width, paper.cut, paper.unicode) == (80, False, True)


def test_symbols_have_stand_ins_where_the_encoding_is_not_utf_8() -> None:
    paper = paper_of(Stream("ascii", terminal=True), {}, columns=80)
    assert paper.write("✔ ▇▇▁ … → é") == "+ ##_ ~ -> ?"


def test_control_characters_of_others_never_reach_a_terminal() -> None:
    assert PLAIN_PAPER.write("name\x1b[2J\x07\x9b31m\r!\n") == "name[2J31m!\n"
    assert Paper(colour=True).write("\x1b[36mours\x1b[0m\n") == "\x1b[36mours\x1b[0m\n"


def test_paint_adds_no_columns() -> None:
    painted = Paper(colour=True).paint("RUNNING", Tone.GOOD)
    assert columns_of(painted) == 7
    assert PLAIN_PAPER.paint("RUNNING", Tone.GOOD) == "RUNNING"


def test_wide_characters_count_twice() -> None:
    assert columns_of("日本") == 4
    assert cut_to("日本語", 4) == "日…"


def test_wrapped_breaks_at_spaces_only() -> None:
    assert wrapped("one two three-is-long", 8) == ["one two", "three-is-long"]
    assert wrapped("", 8) == [""]
