"""What an unquoted YAML word means: exactly what kubectl makes of it.

Kubernetes reads YAML through `sigs.k8s.io/yaml`, which resolves words by YAML 1.1 with the exceptions of Go's reader,
and a manifest must not mean one thing to a cluster and another to Hanse. So here too:

* `yes`, `no`, `on`, `off`, `y`, `n` and their capitalised forms are booleans, like `true` and `false` (the "Norway
  problem": `country: NO` is `false`). Where a text is wanted, such a word is refused with the advice to quote it,
  as a cluster would refuse it, only later and less clearly.
* `010` is eight, `0x10` sixteen, `0b11` three, `1_000` a thousand; `08` is no octal number and so the decimal 8.
* `1:30` and `2026-01-01` are texts: there are no base-60 numbers and no timestamps.
* `~`, `null` and nothing at all are "not set".

The alternative, YAML 1.2, is kinder, and would silently turn a manifest that a cluster refuses into one that runs.
"""

import math
import re
from typing import Final

ScalarValue = str | int | float | bool | None

_TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"))
_FALSE: Final = frozenset(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"))
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_SPECIAL: Final = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_NUMBER_CHARS_MAX: Final = 100  # longer digit strings are texts; no amount or count has so many

_INTEGER: Final = re.compile(r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def resolve(word: str) -> ScalarValue:
    """The value of a plain (unquoted) scalar."""
    if word in _NULL:
        return None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    if word[0] in _NUMBER_STARTS:
        return _number(word)
    return word


def _number(word: str) -> ScalarValue:
    if word in _SPECIAL:
        return _SPECIAL[word]
    digits = word.replace("_", "")
    if len(digits) > _NUMBER_CHARS_MAX:
        return word
    if _INTEGER.fullmatch(digits):
        return _integer(digits)
    if _FLOAT.fullmatch(digits):
        return float(digits)
    return word


def _integer(digits: str) -> int:
    sign = -1 if digits[0] == "-" else 1
    body = digits.lstrip("+-")
    octal = len(body) > 1 and body[0] == "0" and body[1].isdigit()
    return sign * (int(body, 8) if octal else int(body, 0))


def describe(value: ScalarValue) -> str:
    """What kind of value it is, for a message."""
    match value:
        case None:
            return "not set"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
