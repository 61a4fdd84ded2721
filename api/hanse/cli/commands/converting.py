"""`hanse convert`: what a manifest means to Hanse, without asking a server."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.failures import Failure
from hanse.cli.options import ServerOption
from hanse.cli.reading import read_file, shown_name
from hanse.cli.session import papers, put, session_of
from hanse.cli.settings import Output
from hanse.model.errors import InvalidArgument

if TYPE_CHECKING:
    from hanse.model.job import JobSpec


class Form(StrEnum):
    """Forms of output; `native` is the spec in Hanse's own words."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NATIVE = "native"


def convert(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A manifest in any kind that Hanse reads.")],
    output: Annotated[
        Form | None,
        typer.Option("--output", "-o", metavar="table|json|yaml|native", help="Form of the answer. [default: table]"),
    ] = None,
    server: ServerOption = None,
) -> None:
    """Show what a manifest means to Hanse, and each field that is not acted on. Asks no server.

    \b
    hanse convert llama3-70b.yaml
    hanse convert llama3-70b.yaml -o native > llama3-70b.hanse.yaml
    """
    del server  # taken, so that a wrapper can give it to every command
    from hanse.cli.commands.batching import read_script
    from hanse.manifests import convert as read
    from hanse.manifests.sbatch import is_script

    text, name = read_file(file), shown_name(file)
    try:
        converted = read_script(text, file) if is_script(text) else read(text)
    except InvalidArgument as error:
        raise Failure(error, file=name) from None
    if output is Form.NATIVE:
        put(native_file([job.spec for job in converted.jobs]))
        return

    from hanse.cli.show.conversion import conversion_page
    from hanse.manifests import to_json

    session = session_of(None, Output(output.value) if output else None)
    session.say(to_json(converted), lambda paper: conversion_page(converted, paper, file=name))


def native_file(specs: "Iterable[JobSpec]") -> str:
    """Native specs as one file."""
    from hanse.cli.native_form import native_documents
    from hanse.cli.yaml_form import to_yaml

    ascii_only = not papers()[0].unicode
    return "---\n".join(to_yaml(document, ascii_only=ascii_only) for document in native_documents(specs))
