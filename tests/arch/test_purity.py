"""The pure packages are pure, and the checker that says so can say no."""

from pathlib import Path
from typing import Final

import pytest

from tests.arch.purity import Rules, findings
from tests.arch.tree import ROOT

STD_AND_NUMPY: Final = frozenset({"numpy"})
MODEL: Final = "hanse.model"
SHAPE: Final = "hanse.shape"
MANIFESTS: Final = "hanse.manifests"
SCHEDULER_CORE: Final = "hanse.scheduler.core"
AGENT_CORE: Final = "hanse.agent.core"

PURE: Final = {
    "api/hanse/model": Rules(STD_AND_NUMPY, frozenset({MODEL})),
    "api/hanse/shape": Rules(STD_AND_NUMPY, frozenset({MODEL, SHAPE})),
    "api/hanse/manifests": Rules(STD_AND_NUMPY | {"yaml"}, frozenset({MODEL, SHAPE, MANIFESTS})),
    "api/hanse/wire": Rules(
        STD_AND_NUMPY | {"google.protobuf", "google.rpc"},
        frozenset({MODEL, SHAPE, MANIFESTS, "hanse.wire", "hanse.api.v1", "hanse.link.v1", "hanse.sim.v1"}),
    ),
    "global/hanse/scheduler/core": Rules(STD_AND_NUMPY, frozenset({MODEL, SHAPE, SCHEDULER_CORE})),
    "pool_agent/hanse/agent/core": Rules(STD_AND_NUMPY, frozenset({MODEL, SHAPE, AGENT_CORE})),
}

ANY: Final = Rules(STD_AND_NUMPY, frozenset({MODEL}))
REFUSED: Final = {
    "an event loop": "import asyncio",
    "a clock module": "import time",
    "a clock by name": "from time import monotonic",
    "a wall-clock call": "import datetime\ndatetime.datetime.now()",
    "today": "from datetime import date\ndate.today()",
    "randomness": "import random\nrandom.random()",
    "randomness by name": "from random import choice",
    "a source of randomness": "import random\nrng = random.Random(7)",
    "a source of randomness by name": "from random import Random\nrng = Random()",
    "numpy's global randomness": "import numpy as np\nnp.random.rand(3)",
    "a fresh numpy generator": "import numpy as np\nnp.random.default_rng()",
    "the environment": "import os\nos.environ",
    "logs": "import logging",
    "threads": "from threading import Lock",
    "thread pools": "import concurrent.futures",
    "random ids": "import uuid",
    "sockets": "import socket",
    "processes": "import subprocess",
    "an RPC library": "import grpc",
    "a settings library": "import pydantic",
    "an impure package of ours": "from hanse.kit.clock import Clock",
    "an impure package in a type": "if TYPE_CHECKING:\n    from hanse.kit.clock import Clock",
    "a name that only begins like an allowed one": "import hanse.modelling",
    "files": "open('x')",
    "identity": "order = id(object())",
    "hash order": "key = hash('x')",
    "a coroutine": "async def f() -> None: ...",
    "a relative import": "from . import thing",
    "an import inside a function": "def f() -> None:\n    import os",
}
ACCEPTED: Final = {
    "pure standard library": "import math, bisect, itertools, dataclasses, enum, heapq, json, re",
    "dates as values": "from datetime import timedelta",
    "numpy": "import numpy as np\nfrom numpy.typing import NDArray",
    "a generator as an argument": "import numpy as np\ndef f(rng: np.random.Generator) -> None: ...",
    "a package below": "from hanse.model.job import Job",
    "a random source as an argument": "import random\ndef f(rng: random.Random) -> None: ...",
    "a random source under TYPE_CHECKING": "if TYPE_CHECKING:\n    from random import Random",
    "hash inside __hash__": "class A:\n    def __hash__(self) -> int:\n        return hash((1, 2))",
    "a method that shares a name": "self.ledger.now()",
}


@pytest.mark.parametrize("package", sorted(PURE))
def test_package_decides_from_its_arguments_alone(package: str) -> None:
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources, f"{package}: no source there; the list of pure packages is out of date"
    assert [line for source in sources for line in said_of(source, PURE[package])] == []


def said_of(source: Path, rules: Rules) -> list[str]:
    """The findings of one file as lines that an editor can jump to."""
    found = findings(source.read_text(encoding="utf-8"), rules)
    return [f"{source.relative_to(ROOT)}:{finding.line}: {finding.what}" for finding in found]


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_checker_refuses(source: str) -> None:
    assert findings(source, ANY)


@pytest.mark.parametrize("source", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_checker_accepts(source: str) -> None:
    assert findings(source, ANY) == []
