"""A federation of processes with users: an issuer's tokens, a tokens file, a policy that changes, two tenants, and
the audit log of all of it, asked of any replica."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hanse.api.v1 import audit_service_pb2
from hanse.client import AsyncClient
from hanse.client.objects import object_of_spec
from hanse.model.errors import HanseError, NotFound, PermissionDenied
from hanse.up.fleet import load_fleet
from tests.integration.parts import HANSE, Parts, federation
from tests.integration.test_processes import PATIENCE_S, POOLS, small_fleet, until
from tests.integration.workload import spec
from tests.unit.apiserver.access.issuers import AUDIENCE, ISSUER, OTHER_KEY, RSA_KEY, jwk, key_set, token

QUEUE = "team"
ADMIN, PART, EVE = "token-of-the-admin", "token-of-the-parts", "token-of-eve-as-it-is"
POLICY = """
bindings:
  - {role: admin, users: [adm], cluster: true}
  - {role: agent, users: [part]}
  - {role: replica, users: [part]}
  - {role: submitter, groups: ["oidc:vision"], queues: [%s]}
  - {role: submitter, users: [eve], queues: [other]}
"""


def variables(folder: Path) -> dict[str, str]:
    """Of replicas and agents: files that a test may change."""
    (folder / "tokens").write_text(f"adm {ADMIN}\npart {PART}\neve {EVE}\n")
    (folder / "part").write_text(PART)
    (folder / "keys").write_bytes(key_set(jwk(RSA_KEY, "k1")))
    (folder / "access.yaml").write_text(POLICY % QUEUE)
    return {
        "HANSE_GLOBAL_TOKENS_FILE": str(folder / "tokens"),
        "HANSE_GLOBAL_ACCESS_FILE": str(folder / "access.yaml"),
        "HANSE_GLOBAL_PEER_TOKEN_FILE": str(folder / "part"),
        "HANSE_AGENT_TOKEN_FILE": str(folder / "part"),
        "HANSE_GLOBAL_OIDC_ISSUER": ISSUER,
        "HANSE_GLOBAL_OIDC_AUDIENCE": AUDIENCE,
        "HANSE_GLOBAL_OIDC_KEYS": str(folder / "keys"),
        "HANSE_GLOBAL_AUDIT_DIR": str(folder / "audit"),
    }


def client(parts: Parts, shown: str, replica: int = 0) -> AsyncClient:
    return AsyncClient(parts.addresses[replica], token=shown)


async def ready(parts: Parts, fleet: Path) -> None:
    objects = [object_of_spec(one) for one in load_fleet(fleet).resources]
    async with client(parts, ADMIN) as admin:
        await admin.apply([getattr(one, one.WhichOneof("object") or "") for one in objects])

        async def healthy() -> bool:
            return {pool.name for pool in await admin.pools() if pool.attached} == set(POOLS)

        await until(healthy)


async def records(parts: Parts, replica: int, **query: str) -> list[audit_service_pb2.AuditRecord]:
    async with client(parts, ADMIN, replica) as admin:
        page = await admin.audit_page(**query)  # type: ignore[arg-type]
        assert not page.replicas_silent
        return list(page.records)


async def test_users_of_a_federation_of_processes(tmp_path: Path) -> None:
    fleet = small_fleet(tmp_path)
    with federation(tmp_path, fleet, POOLS, variables=variables(tmp_path)) as parts:
        await ready(parts, fleet)
        ana = token(sub="ana", groups=["vision"])
        async with client(parts, ana, 1) as user:
            (job,) = (await user.submit(spec("train", 4, 3_600.0))).ids
            await user.wait(job, until="running", timeout_s=PATIENCE_S)
            assert (await user.who_am_i()).principal == "oidc:ana"
            assert [queue.name for queue in await user.queues()] == [QUEUE]
            with pytest.raises(PermissionDenied, match="operate needs role operator; oidc:ana has none there"):
                await user.cordon(POOLS[0])
        gone = "zzzzzzzz-0123456789abcdef"
        async with client(parts, EVE) as eve:
            with pytest.raises(NotFound) as hidden:
                await eve.job(job)
            with pytest.raises(NotFound) as nothing:
                await eve.job(gone)
            assert hidden.value.message.replace(job, gone) == nothing.value.message
        for bad in (token(OTHER_KEY, groups=["vision"]), PART[:-1] + "!", token(exp=1)):
            async with client(parts, bad) as stranger:
                with pytest.raises(PermissionDenied) as refused:
                    await stranger.queues()
                assert refused.value.reason == "UNAUTHENTICATED"
        async with client(parts, PART) as part:
            with pytest.raises(PermissionDenied):
                await part.queues()

        await _loses_a_stream(parts, tmp_path, ana)
        async with client(parts, ADMIN) as admin:
            await admin.cancel(job)

        async def told() -> bool:
            found = await records(parts, 0, job=job)
            return {r.verb for r in found} >= {"SubmitJobs", "BOUND", "CancelJob", "STOPPING", "ENDED"}

        await until(told)
        for number in range(2):
            found = {r.verb: r for r in await records(parts, number, job=job)}
            assert (found["SubmitJobs"].who, found["SubmitJobs"].replica) == ("oidc:ana", "r1")
            assert (found["CancelJob"].who, found["CancelJob"].replica) == ("adm", "r0")
            assert (found["BOUND"].who, found["BOUND"].queue) == ("scheduler", QUEUE)
            assert found["STOPPING"].reason == "CANCELLED_BY_USER"
        assert [r.verb for r in await records(parts, 0, who="oidc:ana", verb="CordonPool")] == ["CordonPool"]
        written = "".join(path.read_text() for path in (tmp_path / "audit").glob("*"))
        assert not [secret for secret in (ADMIN, PART, EVE, ana, ana.split(".")[2]) if secret in written]
        said = await _hanse("audit", "--job", job, "--verb", "canceljob", "-o", "json", server=parts.addresses[1])
        assert json.loads(said)["who"] == "adm"
        assert "yes" in await _hanse("can", "cordon", server=parts.addresses[1])


async def _loses_a_stream(parts: Parts, folder: Path, ana: str) -> None:
    """Whoever follows jobs is cut off when the policy changes; a policy that is wrong changes nothing."""
    good = (folder / "access.yaml").read_text()
    async with client(parts, ana) as user:
        stream = user.watch_jobs()
        await anext(stream)
        _replace(folder / "access.yaml", "bindings: nobody\n")
        assert [queue.name for queue in await user.queues()] == [QUEUE]
        _replace(folder / "access.yaml", good.replace("oidc:vision", "oidc:nlp"))
        with pytest.raises(HanseError) as ended:
            await asyncio.wait_for(_drained(stream), PATIENCE_S)
        assert ended.value.reason == "ROLE_MISSING", "it was opened again, and refused"
    _replace(folder / "access.yaml", good)


async def _drained(stream: AsyncIterator[object]) -> None:
    async for _ in stream:
        pass


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


async def _hanse(*words: str, server: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *HANSE,
        *words,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "HANSE_TOKEN": ADMIN, "HANSE_SERVER": server},
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()
    return told.decode()
