"""The only module that knows PyYAML: the events of a text, and text from plain values.

Reading goes through libyaml's events alone. No loader of PyYAML constructs anything, so that no document can ask for
an object, and the composer above decides after every event whether it has seen enough.
"""

from typing import Any, Final

from yaml import (
    AliasEvent,
    CSafeDumper,
    CSafeLoader,
    MappingEndEvent,
    MappingStartEvent,
    MarkedYAMLError,
    ScalarEvent,
    ScalarNode,
    SequenceEndEvent,
    StreamEndEvent,
    YAMLError,
    dump,
)

from hanse.manifests.scalars import resolve

__all__ = [
    "AliasEvent",
    "Event",
    "Events",
    "MappingEndEvent",
    "MappingStartEvent",
    "MarkedYAMLError",
    "ScalarEvent",
    "SequenceEndEvent",
    "StreamEndEvent",
    "YAMLError",
    "to_yaml",
]

Event = Any  # types-PyYAML leaves the fields of events, and the marks on them, undescribed
_WIDTH_CHARS: Final = 118


class Events:
    """The events of one text, in order.

    `next` raises YAMLError where the text stops being YAML; `close` frees what libyaml holds.
    """

    def __init__(self, text: str) -> None:
        self._loader = CSafeLoader(text)

    def next(self) -> Event:
        """The next event; the last one is a StreamEndEvent."""
        return self._loader.get_event()

    def close(self) -> None:
        """Nothing may be read any more."""
        self._loader.dispose()


class _Dumper(CSafeDumper):
    """Quotes every text that our reader would take for something else."""


def _text(dumper: _Dumper, text: str) -> ScalarNode:
    plain = isinstance(resolve(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else "'")


_Dumper.add_representer(str, _text)


def to_yaml(value: object) -> str:
    """Plain dicts, lists and scalars as YAML that reads back as the same; keys stay in their order."""
    text: str = dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH_CHARS)
    return text
