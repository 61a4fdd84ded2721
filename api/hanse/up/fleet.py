"""Fleets: which simulated clusters there are, and the flavors, queues, cohorts and priority classes to begin with.

A fleet file is YAML, read by the same bounded reader as manifests, so that every refusal names file, line and field.
`fleet_file` says what may be written; here it becomes values of the product: `ClusterSpec`s for the simulated
clusters, `Level`s for their agents, resources for the operators' side.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources as package_files
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from hanse.agent.core.scores import ScoreTerm
from hanse.manifests import QueueSpec, ResourceSpec, read_resources
from hanse.model.errors import HanseError, InvalidArgument, NotFound
from hanse.model.ids import PoolName
from hanse.model.names import quoted
from hanse.model.placement import Level
from hanse.model.queue import Cohort, Flavor, PriorityClass
from hanse.simcluster.spec import ClusterSpec
from hanse.up.fleet_file import FleetModel, PoolModel
from hanse.up.fleet_pools import cluster_spec, pool_levels
from hanse.up.fleet_refusals import first_refusal, hint
from hanse.up.fleet_text import field_lines, line_of, only_document, plain

DEMO_FLEET: Final = "demo_fleet.yaml"
COST_SCALE: Final = 1_000

_SECTIONS: Final = {
    "flavors": "Flavor",
    "cohorts": "Cohort",
    "queues": "Queue",
    "priority_classes": "PriorityClass",
}


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """One pool of a fleet.

    Attributes:
        cost: of a GPU-hour, in thousandths of the site's unit.
        dialect: whose labels its nodes carry.
        levels: of the topology, coarse to fine, over all node groups.
        scores: what decides between hosts that placement holds equal.
        cluster: what the simulated cluster is made of.
        address: of the server that simulates it, "" if it runs in this process.
    """

    name: PoolName
    region: str
    labels: Mapping[str, str]
    cost: int
    dialect: str
    levels: tuple[Level, ...]
    scores: tuple[ScoreTerm, ...]
    cluster: ClusterSpec
    address: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet file, understood.

    Attributes:
        resources: what operators have set up: flavors, cohorts, queues, priority classes, in this order.
        links: what it costs parts of one gang to talk between pools, as `link_costs.links_of` reads it.
    """

    pools: tuple[PoolSpec, ...]
    resources: tuple[ResourceSpec, ...]
    links: tuple[str, ...] = ()

    @property
    def flavors(self) -> tuple[Flavor, ...]:
        return tuple(r for r in self.resources if isinstance(r, Flavor))

    @property
    def cohorts(self) -> tuple[Cohort, ...]:
        return tuple(r for r in self.resources if isinstance(r, Cohort))

    @property
    def queues(self) -> tuple[QueueSpec, ...]:
        return tuple(r for r in self.resources if isinstance(r, QueueSpec))

    @property
    def priority_classes(self) -> tuple[PriorityClass, ...]:
        return tuple(r for r in self.resources if isinstance(r, PriorityClass))

    def pool(self, name: str) -> PoolSpec:
        """The pool of that name. Raises NotFound."""
        found = next((pool for pool in self.pools if pool.name == name), None)
        if found is None:
            known = [str(pool.name) for pool in self.pools]
            raise NotFound(f"no pool {quoted(name)} in this fleet{hint(name, known)}")
        return found


def load_fleet(path: Path | None = None) -> Fleet:
    """The fleet of a file, or the demo's.

    Raises:
        InvalidArgument: with path, line and one line of message; the message begins with the file's name.
    """
    if path is None:
        return read_fleet(package_files.files("hanse.up").joinpath(DEMO_FLEET).read_bytes())
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}", reason="FILE") from error
    try:
        return read_fleet(text)
    except InvalidArgument as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        what = f"{where}: {error}"
        raise InvalidArgument(what, reason=error.reason, line=error.line) from error


def read_fleet(text: str | bytes) -> Fleet:
    """The fleet of a text. Raises InvalidArgument with the field's path and its line."""
    document = only_document(text)
    lines = dict(field_lines(document))
    try:
        model = FleetModel.model_validate(plain(document))
    except ValidationError as error:
        raise first_refusal(error, lines) from None
    try:
        resources = tuple(_resources(model))
        return Fleet(tuple(_pools(model)), resources, tuple(model.links))
    except InvalidArgument as error:
        line = error.line or line_of(error.path, lines)
        raise InvalidArgument(error.message, reason=error.reason, path=error.path, line=line) from error


def _resources(model: FleetModel) -> Iterator[ResourceSpec]:
    """The operators' sections, read as `hanse apply` reads files."""
    for section, kind in _SECTIONS.items():
        seen: set[str] = set()
        for index, fields in enumerate(getattr(model, section)):
            path = f"{section}[{index}]"
            default = {"order": index} if section == "flavors" else {}
            for found in _read_resource({**default, **fields, "apiVersion": "hanse/v1", "kind": kind}, path):
                if found.name in seen:
                    raise InvalidArgument(f"{quoted(found.name)} is there twice", reason="DUPLICATE_NAME", path=path)
                seen.add(found.name)
                yield found


def _read_resource(document: Mapping[str, Any], path: str) -> tuple[ResourceSpec, ...]:
    try:
        return read_resources(orjson.dumps(document))
    except HanseError as error:
        raise InvalidArgument(error.message, reason=error.reason, path=f"{path}.{error.path}".rstrip(".")) from None


def _pools(model: FleetModel) -> Iterator[PoolSpec]:
    seen: set[str] = set()
    for index, pool in enumerate(model.pools):
        path = f"pools[{index}]"
        if pool.name in seen:
            raise InvalidArgument(f"a pool {quoted(pool.name)} is there already", reason="DUPLICATE_NAME", path=path)
        seen.add(pool.name)
        yield _pool(pool, path)


def _pool(pool: PoolModel, path: str) -> PoolSpec:
    return PoolSpec(
        name=PoolName(pool.name),
        region=pool.region,
        labels=dict(pool.labels),
        cost=round(pool.cost * COST_SCALE),
        dialect=pool.dialect,
        levels=pool_levels(pool, path),
        scores=tuple(ScoreTerm(one.name, one.label, one.weight) for one in pool.scores),
        cluster=cluster_spec(pool, path),
        address=pool.address,
    )
