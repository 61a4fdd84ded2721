"""Pure: MQTT topics and filters, their limits, and which filter matches which topic."""

from hanse.bus.contract import BUS_PAYLOAD_MAX_BYTES, BUS_TOPIC_MAX_BYTES, BusLimit


def check_message(topic: str, payload: bytes) -> None:
    """Raises ``BusLimit`` unless the topic is well formed and without wildcards and the payload short
    enough."""
    _check_text("topic", topic)
    if "+" in topic or "#" in topic:
        raise BusLimit(f"topic {topic!r} holds a wildcard: only filters may")
    if len(payload) > BUS_PAYLOAD_MAX_BYTES:
        raise BusLimit(f"payload for {topic!r} has {len(payload)} bytes, the limit is {BUS_PAYLOAD_MAX_BYTES}")


def check_filter(filter_: str) -> None:
    """Raises ``BusLimit`` unless ``+`` stands alone in its level and ``#`` alone in the last."""
    _check_text("filter", filter_)
    levels = filter_.split("/")
    for at, level in enumerate(levels):
        alone = level in ("+", "#")
        if not alone and ("+" in level or "#" in level):
            raise BusLimit(f"filter {filter_!r}: a wildcard must be a whole level, {level!r} is not")
        if level == "#" and at != len(levels) - 1:
            raise BusLimit(f"filter {filter_!r}: '#' must be the last level")


def is_wildcard(filter_: str) -> bool:
    return "+" in filter_ or "#" in filter_


def matches(filter_: str, topic: str) -> bool:
    """Both well formed. A leading wildcard does not match topics that start with ``$``, as in MQTT."""
    if filter_[0] in "+#" and topic[0] == "$":
        return False
    wanted, levels = filter_.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    return all(want in ("+", level) for want, level in zip(wanted, levels, strict=False))


def _check_text(what: str, text: str) -> None:
    if not text or "\0" in text:
        raise BusLimit(f"{what} {text!r} is empty or holds a NUL")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BusLimit(f"{what} {text[:40]!r} is not valid Unicode (lone surrogate)") from None
    if size > BUS_TOPIC_MAX_BYTES:
        raise BusLimit(f"{what} {text[:40]!r}… has {size} bytes, the limit is {BUS_TOPIC_MAX_BYTES}")
