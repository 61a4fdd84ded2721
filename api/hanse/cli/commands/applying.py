"""`hanse apply`: queues, cohorts, flavors and priority classes from files that are kept in git."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.failures import Failure
from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.reading import read_file, shown_name
from hanse.cli.session import session_of
from hanse.model.errors import HanseError, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.api.v1.config_service_pb2 import AppliedObject
    from hanse.client import AsyncClient


def apply(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Objects, as documents of YAML.")],
    check: Annotated[bool, typer.Option("--check", help="Only say what would be done.")] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Create or update what a file describes; all of it, or nothing. What the file does not name stays as it is.

    \b
    hanse apply queues.yaml
    hanse apply queues.yaml --check
    """
    session = session_of(server, output)
    text, name = read_file(file), shown_name(file)

    async def applied(client: "AsyncClient") -> "list[AppliedObject]":
        try:
            return await client.apply(text, validate_only=check)
        except InvalidArgument as error:
            raise Failure(error, file=name) from None

    results = session.ask(applied)
    value = told_objects(results, name)

    from hanse.cli.show.submitted import applied_page

    session.say(value, lambda paper: applied_page(results, paper))


def told_objects(results: "Sequence[AppliedObject]", file: str) -> dict[str, object]:
    """What became of objects, for programs.

    Raises:
        Failure: some were refused.
    """
    from hanse.wire.json import message_to_json

    refused = [_error(one) for one in results if one.HasField("error")]
    if refused:
        raise Failure(*refused, file=file)
    return {"objects": [message_to_json(one) for one in results]}


def _error(result: "AppliedObject") -> HanseError:
    from hanse.wire.errors import error_from_wire

    error = error_from_wire(result.error)
    kind = result.kind.replace("_", " ")
    message = f'{kind} "{result.name}": {error.message}'
    return type(error)(message, reason=error.reason, path=error.path, line=error.line)
