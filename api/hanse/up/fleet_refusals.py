"""What pydantic says about a file, as one line with path, line and a hint."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted
from hanse.up.fleet_file import FleetModel
from hanse.up.fleet_text import line_of

_WANTED: Final = {
    "model_type": "must be a mapping of fields",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "string_type": "must be a text",
}


def first_refusal(error: ValidationError, lines: Mapping[str, int], model: Any = FleetModel) -> InvalidArgument:
    """The refusal to show: what is wrong goes before what is missing, then the first line. A list is not to blame for
    what is wrong inside it."""
    details = error.errors(include_url=False)
    places = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    refusals = [_refusal(detail, lines, model) for detail in details if detail["loc"] not in places]
    return min(refusals, key=lambda refusal: (refusal.reason == "MISSING", refusal.line))


def hint(word: str, known: list[str]) -> str:
    """What the word may have been meant to be."""
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {quoted(near[0])}?" if near else f"; there are: {', '.join(known)}"


def _refusal(detail: ErrorDetails, lines: Mapping[str, int], model: Any) -> InvalidArgument:
    path = _path(detail["loc"])
    line = line_of(path, lines)
    match detail["type"]:
        case "extra_forbidden":
            suggestion = hint(str(detail["loc"][-1]), _fields_at(model, detail["loc"][:-1]))
            reason, message = "UNKNOWN_FIELD", f"no field of this name{suggestion}"
        case "missing":
            reason, message = "MISSING", "is missing"
        case "value_error":
            reason, message = "INVALID", str(detail["ctx"]["error"])
        case kind:
            shown = detail["input"]
            given = f"; it is {quoted(str(shown))}" if isinstance(shown, str | int | float) else ""
            reason, message = "INVALID", _WANTED.get(kind, detail["msg"].removeprefix("Input ")) + given
    return InvalidArgument(message, reason=reason, path=path, line=line)


def _path(loc: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return "".join(parts).removeprefix(".")


def _fields_at(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    """Names that a model has at this place."""
    for part in loc:
        if isinstance(part, str) and part in getattr(model, "model_fields", {}):
            model = _model_inside(model.model_fields[part].annotation)
    return list(getattr(model, "model_fields", {}))


def _model_inside(annotation: Any) -> Any:
    """The model that a field holds, directly, in a list, or optionally."""
    if hasattr(annotation, "model_fields"):
        return annotation
    inner = (_model_inside(part) for part in getattr(annotation, "__args__", ()))
    return next((part for part in inner if part is not None), None)
