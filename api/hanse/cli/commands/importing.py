"""`hanse import`: Kueue's configuration, as our queues, flavors and levels."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.commands.applying import told_objects
from hanse.cli.failures import Failure
from hanse.cli.options import ServerOption
from hanse.cli.reading import read_file, shown_name
from hanse.cli.session import papers, put, session_of
from hanse.cli.settings import Output
from hanse.model.errors import InvalidArgument

if TYPE_CHECKING:
    from hanse.api.v1.config_service_pb2 import AppliedObject
    from hanse.client import AsyncClient
    from hanse.manifests import ImportedConfig


class Form(StrEnum):
    """Forms of output; `native` is the objects in Hanse's own words, and asks no server."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NATIVE = "native"


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="ClusterQueues, flavors, topologies, as documents of YAML.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Only say what would be done.")] = False,
    server: ServerOption = None,
    output: Annotated[
        Form | None,
        typer.Option("--output", "-o", metavar="table|json|yaml|native", help="Form of the answer. [default: table]"),
    ] = None,
) -> None:
    """Create or update what a file of Kueue's configuration describes, and name what Hanse does not act on.

    ClusterQueues become queues, ResourceFlavors flavors, Cohorts and priority classes what they are; a Topology
    becomes `levels` for the settings of an agent. All of it is done, or nothing.

    \b
    kubectl get clusterqueues,resourceflavors,cohorts,topologies -o yaml | hanse import - --check
    hanse import kueue.yaml
    hanse import kueue.yaml -o native > queues.yaml
    """
    from hanse.manifests import read_kueue

    text, name = read_file(file), shown_name(file)
    try:
        found = read_kueue(text)
    except InvalidArgument as error:
        raise Failure(error, file=name) from None
    if output is Form.NATIVE:
        put(_native(found))
        return
    _apply(found, name, check=check, server=server, output=Output(output.value) if output else None)


def _native(found: "ImportedConfig") -> str:
    from hanse.cli.native_objects import level_settings, object_documents
    from hanse.cli.yaml_form import to_yaml

    ascii_only = not papers()[0].unicode
    documents = [
        to_yaml(document, ascii_only=ascii_only) for document in object_documents((*found.implied, *found.objects))
    ]
    settings = [to_yaml({"levels": level_settings(one)}, ascii_only=ascii_only) for one in found.levels]
    told = [
        "".join(f"# {line}\n" for line in (f"topology {one.name}, for the settings of a pool:", *text.splitlines()))
        for one, text in zip(found.levels, settings, strict=True)
    ]
    return "---\n".join(documents) + "".join(told)


def _apply(found: "ImportedConfig", name: str, *, check: bool, server: str | None, output: Output | None) -> None:
    from hanse.cli.native_objects import level_settings
    from hanse.cli.show.imported import imported_page

    session = session_of(server, output)

    async def applied(client: "AsyncClient") -> "list[AppliedObject]":
        known = {cohort.name for cohort in await client.cohorts()}
        missing = [cohort for cohort in found.implied if cohort.name not in known]
        return await client.apply([*missing, *found.objects], validate_only=check)

    results = session.ask(applied) if found.objects else []
    value = told_objects(results, name) | {
        "levels": [{"topology": one.name, "levels": level_settings(one)} for one in found.levels],
        "unmapped": [{"path": one.path, "line": one.line, "why": one.why} for one in found.unmapped],
    }
    session.say(value, lambda paper: imported_page(results, found, paper, file=name))
