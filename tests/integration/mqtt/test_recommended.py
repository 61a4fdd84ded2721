"""The configuration that the docs recommend is one that mosquitto takes, and does what the page says."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from hanse.bus.contract import BusClosed, Will
from hanse.bus.mqtt import MqttBus
from hanse.wire.summary import pool_topics, presence_topic, summary_topic
from tests.arch.tree import ROOT
from tests.contract.bus_contract.test_bus import client, ends, one, until
from tests.services.mosquitto import Broker, mosquitto

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
def broker(folder: Path) -> Iterator[Broker]:
    text = block("conf").replace("/etc/mosquitto/hanse", str(folder))
    lines = [line for line in text.splitlines() if not line.startswith("listener")]
    with mosquitto(lines=[*lines, "user root"]) as started:
        yield started


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
