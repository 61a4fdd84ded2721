import pytest

from hanse.bus.topics import matches


@pytest.mark.parametrize(
    ("filter_", "topic", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/uptime", False),
        ("+/uptime", "$SYS/uptime", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("a/+/c/#", "a/b/c", True),
        ("a/+/c/#", "a/b", False),
    ],
)
def test_matches_as_the_mqtt_specification_says(filter_: str, topic: str, expected: bool) -> None:
    assert matches(filter_, topic) is expected
