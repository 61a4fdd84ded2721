"""Gangs of several sets, by brute force: every way to put every set on the hosts of a small pool.

Nothing here knows how placement works. Hosts have a path of names by level (None where a label is unknown), a number
of free GPUs and what is left of the CPU; pools may have trees of different depth.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

Cost = tuple[int, ...]
Pods = tuple[int, ...]  # by host


@dataclass(frozen=True)
class Host:
    """One host; `tree` is the number of its tree, `tags` the labels that sets may select."""

    name: str
    tree: int
    path: tuple[str | None, ...]
    free: int
    cpu: int
    tags: frozenset[str] = frozenset()

    def domain(self, depth: int) -> tuple[object, ...]:
        """The domain at a depth: itself where it does not know."""
        names = [f"?{self.name}" if name is None else name for name in self.path]
        return (self.tree, *names[: depth + 1]) if depth < len(names) else (self.tree, *names, self.name)


@dataclass(frozen=True)
class Set:
    """So many pods of `gpus` GPUs and `cpu`; no GPUs for a pod that every host's CPU alone decides.

    Attributes:
        required: depth by tree, None where the tree has no such level; () for no level.
        sizes: by tree, slice sizes by depth, the host last, 0 for none.
        tag: of the hosts that it may use, "" for any.
        group: depth by tree of the level of which one domain holds all sets that have one; () for none.
    """

    pods: int
    gpus: int
    cpu: int
    required: tuple[int | None, ...] = ()
    sizes: tuple[tuple[int, ...], ...] = ()
    tag: str = ""
    group: tuple[int | None, ...] = ()

    def step(self, tree: int, depth: int) -> int:
        return max(1, self.sizes[tree][depth]) if self.sizes else 1

    def may_use(self, host: Host) -> bool:
        known = not self.required or self.required[host.tree] is not None
        return known and (not self.tag or self.tag in host.tags)

    def alone(self, host: Host) -> int:
        if not self.may_use(host):
            return 0
        most = host.free // self.gpus if self.gpus else host.cpu // self.cpu
        return most // self.step(host.tree, len(host.path)) * self.step(host.tree, len(host.path))


def fit(s: Set, hosts: list[Host], depth: int) -> int:
    """The most pods of the set in the hosts of one domain at a depth."""
    if depth == len(hosts[0].path):
        return sum(s.alone(host) for host in hosts)
    parts: dict[tuple[object, ...], list[Host]] = {}
    for host in hosts:
        parts.setdefault(host.domain(depth + 1), []).append(host)
    total = sum(fit(s, part, depth + 1) for part in parts.values())  # of a host this is what it holds
    return total // s.step(hosts[0].tree, depth) * s.step(hosts[0].tree, depth)


def ways(s: Set, hosts: list[Host]) -> Iterator[Pods]:
    """Every way to put the set on the hosts if it were alone."""
    for pods in product(*[range(min(s.pods, s.alone(host)) + 1) for host in hosts]):
        if sum(pods) == s.pods and allowed(s, hosts, pods):
            yield pods


def allowed(s: Set, hosts: list[Host], pods: Pods) -> bool:
    """Whether no slice is cut and the required level is one domain."""
    for depth in range(max(len(host.path) for host in hosts) + 1):
        sums: dict[tuple[object, ...], int] = {}
        for host, n in zip(hosts, pods, strict=True):
            if depth <= len(host.path):
                at = host.domain(depth)
                sums[at] = sums.get(at, 0) + n
        for at, n in sums.items():
            tree = at[0]
            assert isinstance(tree, int)
            if n % s.step(tree, depth):
                return False
            if n and s.required and s.required[tree] == depth and n != s.pods:
                return False
    return True


def holds(sets: list[Set], host: Host, mix: Pods) -> bool:
    """Whether a host holds so many pods of each set together."""
    if sum(s.gpus * n for s, n in zip(sets, mix, strict=True)) > host.free:
        return False
    used = sum(s.cpu * n for s, n in zip(sets, mix, strict=True))
    return used <= host.cpu or not any(n and not s.gpus for s, n in zip(sets, mix, strict=True))


def cost(sets: list[Set], hosts: list[Host], placed: tuple[Pods, ...]) -> Cost:
    """Domains used by level and hosts, then what the used ones could hold, in GPUs of the pods."""
    used = [i for i in range(len(hosts)) if any(pods[i] for pods in placed)]
    deepest = max(len(host.path) for host in hosts)
    counts, left = [0] * (deepest + 1), [0] * (deepest + 1)
    for level in range(deepest + 1):
        at = {hosts[i].domain(_depth(hosts[i], level, deepest)) for i in used}
        counts[level] = len(at)
        for domain in at:
            inside = [host for host in hosts if host.domain(_depth(host, level, deepest)) == domain]
            depth = _depth(inside[0], level, deepest)
            left[level] += sum(s.gpus * fit(s, inside, depth) for s in sets)
    return (*counts, *left)


def _depth(host: Host, level: int, deepest: int) -> int:
    """Where a host's tree has a level: one that it lacks coincides with its lowest, the host is the last of all."""
    return len(host.path) if level == deepest else min(level, len(host.path) - 1)


def best(sets: list[Set], hosts: list[Host]) -> Cost | None:
    """The least cost; None if nothing holds the gang. What it costs follows from the hosts that are used."""
    used: set[frozenset[int]] = set()
    _place(sets, hosts, (), used)
    return min((cost(sets, hosts, _marked(some, len(hosts))) for some in used), default=None)


def _place(sets: list[Set], hosts: list[Host], placed: tuple[Pods, ...], used: set[frozenset[int]]) -> None:
    """Adds the hosts of every arrangement that begins with `placed`."""
    if len(placed) == len(sets):
        if not _grouped(sets, hosts, placed):
            return
        used.add(frozenset(i for i in range(len(hosts)) if any(pods[i] for pods in placed)))
        return
    some = sets[: len(placed) + 1]
    for pods in ways(some[-1], hosts):
        mixes = zip(*placed, pods, strict=True)
        if all(holds(some, host, mix) for host, mix in zip(hosts, mixes, strict=True)):
            _place(sets, hosts, (*placed, pods), used)


def _grouped(sets: list[Set], hosts: list[Host], placed: tuple[Pods, ...]) -> bool:
    """Whether one domain holds all sets that ask for it."""
    domains: set[object] = set()
    for s, pods in zip(sets, placed, strict=True):
        for host, n in zip(hosts, pods, strict=True):
            if s.group and n:
                depth = s.group[host.tree]
                domains.add(None if depth is None else host.domain(depth))
    return None not in domains and len(domains) <= 1


def _marked(used: frozenset[int], hosts: int) -> tuple[Pods, ...]:
    return (tuple(int(i in used) for i in range(hosts)),)
