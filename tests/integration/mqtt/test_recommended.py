"""The configuration that the docs recommend is one that mosquitto takes, and does what the page says."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from hanse.bus.contract import BusClosed, BusUnavailable, Will
from hanse.bus.mqtt import MqttBus
from hanse.kit.tls import Identity, Kind, TlsFiles
from hanse.kit.trust.asking import checked_request, new_request
from hanse.kit.trust.authority import begin
from hanse.kit.trust.files import write_issued
from hanse.wire.summary import pool_topics, presence_topic, summary_topic
from tests.arch.tree import ROOT
from tests.contract.bus_contract.test_bus import client, ends, one, until
from tests.services.mosquitto import Broker, mosquitto
from tests.unit.scheduler_shell.puppet import CLOCK

PAGE = ROOT / "docs" / "reference" / "mqtt.md"


def block(kind: str) -> str:
    """The page's only block of that kind."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page has in /etc/mosquitto/hanse, and certificates for clients."""
    made: Path = tmp_path_factory.mktemp("recommended")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made / "ca.pem")
    issued = {"server": authority.issue_cert("127.0.0.1")}
    issued |= {
        name: authority.issue_cert(f"{name}.invalid", common_name=name) for name in ("hanse-global", "p1", "p2")
    }
    for name, cert in issued.items():
        cert.cert_chain_pems[0].write_to_path(made / f"{name}.pem")
        cert.private_key_pem.write_to_path(made / f"{name}-key.pem")
    (made / "acl").write_text(block("acl"))
    return made


@pytest.fixture(scope="module")
def broker(folder: Path, ours: Path) -> Iterator[Broker]:
    text = block("conf").replace("/etc/mosquitto/hanse", str(folder))
    lines = [line for line in text.splitlines() if not line.startswith("listener")]
    with mosquitto(lines=[*lines, "user root"]) as started:
        yield started


@pytest.fixture(scope="module")
def ours(folder: Path) -> Path:
    """Certificates as `hanse ca issue` and `hanse join` make them, by an authority that the broker believes too."""
    made = begin(folder / "hanse-ca.pem", folder / "hanse-ca-key.pem", "hanse", now_ms=CLOCK.now_ms())
    with (folder / "ca.pem").open("ab") as believed:
        believed.write(made.certificate)
    for kind, name in ((Kind.AGENT, "p1"), (Kind.REPLICA, "r0"), (Kind.USER, "p1-user"), (Kind.USER, "hanse-global")):
        identity = Identity(kind, name)
        key, request = new_request(identity)
        public = checked_request(request, identity)
        issued = made.sign(public, identity, now_ms=CLOCK.now_ms(), lifetime_s=600)
        own = folder / f"hanse-{kind}-{name}.pem"
        write_issued(TlsFiles(None, own, own), issued, key)
    return folder


def own(broker: Broker, folder: Path, name: str) -> MqttBus:
    file = folder / f"hanse-{name}.pem"
    return MqttBus(replace(broker.options, tls=True, ca=folder / "ca.pem", cert=file, key=file))


async def test_certificates_of_our_own_authority_are_known_to_the_broker(ours: Path, broker: Broker) -> None:
    """An agent's is its pool, a replica's hears all, and a user's is neither, whatever name the user chose."""
    async with client(own(broker, ours, "replica-r0"), "replica") as replica:
        heard = await replica.subscribe(pool_topics("f"))
        for name, topic, payload in (
            ("user-p1-user", "p1", b"a user's"),
            ("user-hanse-global", "p1", b"a user's"),
            ("agent-p1", "p2", b"forged"),
            ("agent-p1", "p1", b"mine"),
        ):
            with suppress(BusUnavailable):  # a name that the broker takes for nobody's
                async with client(own(broker, ours, name), name) as sender:
                    await sender.publish(summary_topic("f", topic), payload)
        assert [message.payload for message in await until(heard, ends(b"mine"))] == [b"mine"]


def known_as(broker: Broker, folder: Path, name: str) -> MqttBus:
    cert, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    return MqttBus(replace(broker.options, tls=True, ca=folder / "ca.pem", cert=cert, key=key))


async def test_agents_speak_for_their_own_pool_and_replicas_hear_all(broker: Broker, folder: Path) -> None:
    will = Will(presence_topic("f", "p1"), b"gone", retain=True)
    replica_bus, agent_bus = (known_as(broker, folder, name) for name in ("hanse-global", "p1"))
    async with client(replica_bus, "replica") as replica:
        heard = await replica.subscribe(pool_topics("f"))
        agent = await agent_bus.connect("agent", will=will)
        await agent.publish(summary_topic("f", "p2"), b"forged", retain=True)
        await agent.publish(summary_topic("f", "p1"), b"mine", retain=True)
        assert [message.payload for message in await until(heard, ends(b"mine"))] == [b"mine"]
        await replica.publish(summary_topic("f", "p1"), b"forged too", retain=True)
        await agent.abort()
        assert (await one(heard)).payload == b"gone"


async def test_an_id_that_was_taken_is_not_taken_back(broker: Broker, folder: Path) -> None:
    """The list lets its holder be asked."""
    bus = known_as(broker, folder, "p1")
    first = await bus.connect("agent")
    inbox = await first.subscribe("hints")
    async with client(bus, "agent") as second:
        with pytest.raises(BusClosed, match="has connected again"):
            await one(inbox)
        await second.publish(presence_topic("f", "p1"), b"here")
