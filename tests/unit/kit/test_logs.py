"""Log lines: fields, not sentences, and one line whatever a tenant names."""

import json
import logging

from hanse.kit.logs import FIELD_CHARS_MAX, JsonFormatter, TextFormatter


def record(**fields: object) -> logging.LogRecord:
    made = logging.LogRecord("hanse", logging.INFO, __file__, 1, "job_moved", (), None)
    made.created = 0.0
    made.__dict__.update(fields)
    return made


def test_text_keeps_the_order_of_fields_and_quotes_spaces() -> None:
    line = TextFormatter().format(record(job="j-1", attempt=2, why="no room"))
    assert line == '1970-01-01T00:00:00.000Z info    job_moved job=j-1 attempt=2 why="no room"'


def test_json_keeps_numbers() -> None:
    found = json.loads(JsonFormatter().format(record(job="j-1", attempt=2)))
    assert found == {
        "time": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "event": "job_moved",
        "job": "j-1",
        "attempt": 2,
    }


def test_a_hostile_name_forges_no_second_line_and_is_cut() -> None:
    evil = record(job="a\nerror forged", label="x" * (FIELD_CHARS_MAX + 9))
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(evil)
        assert "\n" not in line
        assert "x" * (FIELD_CHARS_MAX + 1) not in line
