"""A batch script to its options, as sbatch finds them, each with the line that it stands in.

Directives begin in column 1 with `#SBATCH` and end at the first command. Words are split as by a shell, without
expanding anything; a `#` after a blank begins a comment. Long options may be shortened as far as they stay
unambiguous. Of an option that is given twice the last one counts. `#SBATCH hetjob` begins another component.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from hanse.manifests.fields import suggestion
from hanse.manifests.sbatch.options import BY_LETTER, OPTIONS, OptionKind, Takes
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

SCRIPT_BYTES_MAX: Final = 48 * 1024  # it travels in the spec of its job, of which 64 KiB are allowed
COMPONENTS_MAX: Final = 16
_DIRECTIVE: Final = re.compile(r"#(SBATCH|HANSE)(?=\s|$)(.*)")
_HETJOB: Final = ("hetjob", "packjob")


@dataclass(frozen=True, slots=True)
class Option:
    """One option as it was given.

    Attributes:
        line: in the script; 0 for the command line.
    """

    kind: OptionKind
    value: str
    line: int

    @property
    def shown(self) -> str:
        """The option's long form, for messages."""
        return f"--{self.kind.name}"

    def refuse(self, reason: str, message: str) -> NoReturn:
        """Refuse what was given here."""
        raise InvalidArgument(message, reason=reason, path=self.shown, line=self.line)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that was read.

    Attributes:
        components: the options of each component by name, the last one that was given of each.
        late: lines of directives after the first command.
    """

    text: str
    components: tuple[dict[str, Option], ...]
    late: tuple[int, ...] = field(default=())


def read_script(text: str) -> Script:
    """Read a script.

    Raises:
        InvalidArgument: no shebang, line ends of another system, too long, or an option that sbatch does not know.
    """
    _check(text)
    components: list[dict[str, Option]] = [{}]
    late: list[int] = []
    begun = False
    for number, line in enumerate(text.split("\n"), 1):
        found = _DIRECTIVE.match(line)
        if found is None:
            begun = begun or bool(line.strip() and not line.lstrip().startswith("#"))
        elif begun:
            late.append(number)
        else:
            _directive(found[1] == "HANSE", found[2], number, components)
    return Script(text, tuple(components), tuple(late))


def _check(text: str) -> None:
    if not text.startswith("#!"):
        raise InvalidArgument("no #! in the first line; say what runs the script", reason="SCRIPT", line=1)
    end = text.find("\r")
    if end >= 0:
        line = text.count("\n", 0, end) + 1
        raise InvalidArgument("a line ends with CR LF; save the script with LF alone", reason="SCRIPT", line=line)
    if len(text.encode()) > SCRIPT_BYTES_MAX:
        raise InvalidArgument(
            f"{len(text.encode())} bytes; a script has at most {SCRIPT_BYTES_MAX}: put it into the image",
            reason="SCRIPT",
            line=1,
        )


def _directive(ours: bool, rest: str, line: int, components: list[dict[str, Option]]) -> None:
    words = _words(rest, line)
    if not ours and len(words) == 1 and words[0] in _HETJOB:
        if len(components) >= COMPONENTS_MAX:
            raise InvalidArgument(f"more than {COMPONENTS_MAX} components", reason="TOO_MANY", line=line)
        components.append({})
        return
    for option in options_of(words, line=line, ours=ours):
        components[-1][option.kind.name] = option


def _words(rest: str, line: int) -> list[str]:
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        raise InvalidArgument("a quote is not closed", reason="SCRIPT", line=line) from None
    comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:comment]


def options_of(words: Sequence[str], *, line: int = 0, ours: bool | None = None) -> Iterator[Option]:
    """The options that words are.

    Args:
        ours: whether only Hanse's own, or only Slurm's, may stand here; None for both.

    Raises:
        InvalidArgument: reason UNKNOWN_OPTION, AMBIGUOUS or MISSING.
    """
    rest = list(words)
    while rest:
        yield take_option(rest, line=line, ours=ours)


def take_option(rest: list[str], *, line: int = 0, ours: bool | None = None) -> Option:
    """The first option of the words, which are taken from them."""
    word = rest.pop(0)
    if word.startswith("--") and len(word) > 2:
        name, equals, value = word[2:].partition("=")
        kind = _long(name, line, ours)
        if kind.takes is Takes.NOTHING and equals:
            raise _refusal(line, "TYPE", f"--{kind.name} takes no value")
        if kind.takes is Takes.VALUE and not equals:
            value = _following(rest, f"--{kind.name}", line)
        return Option(kind, value, line)
    if word.startswith("-") and len(word) > 1:
        found = BY_LETTER.get(word[1])
        if found is None or ours:
            raise _refusal(line, "UNKNOWN_OPTION", f"sbatch has no option {quoted(word[:2])}")
        value = word[2:]
        if found.takes is Takes.NOTHING and value:
            rest.insert(0, f"-{value}")
            value = ""
        if found.takes is Takes.VALUE and not value:
            value = _following(rest, word, line)
        return Option(found, value, line)
    raise _refusal(line, "UNKNOWN_OPTION", f"{quoted(word)} is no option; options begin with a dash")


def _following(rest: list[str], shown: str, line: int) -> str:
    if not rest:
        raise _refusal(line, "MISSING", f"{shown} needs a value")
    return rest.pop(0)


def _long(name: str, line: int, ours: bool | None) -> OptionKind:
    known = {known: kind for known, kind in OPTIONS.items() if ours is None or kind.ours is ours}
    if name in known:
        return known[name]
    near = [kind for known_name, kind in known.items() if name and known_name.startswith(name)]
    if len(near) == 1:
        return near[0]
    if near:
        meant = ", ".join(f"--{kind.name}" for kind in near[:4])
        raise _refusal(line, "AMBIGUOUS", f"--{name} may be {meant}; write it out")
    raise _refusal(line, "UNKNOWN_OPTION", f"no option {quoted('--' + name)}{suggestion(name, known)}")


def _refusal(line: int, reason: str, message: str) -> InvalidArgument:
    return InvalidArgument(message, reason=reason, path="#SBATCH" if line else "sbatch", line=line)
