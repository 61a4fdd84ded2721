"""Users, tokens and certificates. A token may be lost at any time, also a watch's, where etcd tells it otherwise."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from hanse.store.contract import KEYS_END, Put, Store, StoreUnavailable, Txn
from hanse.store.etcd import EtcdOptions, EtcdStore
from tests.contract.store_contract.acts import collect_events, get, put
from tests.integration.etcd.ledger import first, until
from tests.services.certificates import Certificates
from tests.services.etcd import EtcdServers, etcd_servers
from tests.services.etcd_admin import Operator

SOON_S = 1.0
PASSWORD = "a word: with @ and /"


@pytest.fixture(scope="module")
def guarded() -> Iterator[EtcdServers]:
    """With authentication; `hanse` may read and write every key, `half` those under ``half/`` and ``meta/``."""
    with etcd_servers() as servers:
        operator = Operator(servers)
        operator.add_user("hanse", PASSWORD, "")
        operator.add_user("half", PASSWORD, "half/", "meta/")
        operator.enable_auth("root")
        yield servers


@pytest.fixture(scope="module")
def private(certificates: Certificates) -> Iterator[EtcdServers]:
    """With TLS, and certificates of clients demanded."""
    with etcd_servers(certificates=certificates) as servers:
        yield servers


async def use(store: Store, key: str) -> None:
    """Write, read, watch, lease."""
    revision = await put(store, key, b"1", lease=await store.lease_grant(60.0))
    assert await get(store, key) is not None
    async with store.watch("", KEYS_END, from_revision=revision) as watch:
        assert len(await collect_events(watch, 1)) == 1


async def test_a_user_does_everything(guarded: EtcdServers) -> None:
    store = await EtcdStore.open(guarded.options(user="hanse", password=PASSWORD))
    await use(store, "everything")
    await store.close()


async def test_a_wrong_password_is_told_at_once_and_not_shown(guarded: EtcdServers) -> None:
    with pytest.raises(StoreUnavailable, match="check the password") as caught:
        await EtcdStore.open(guarded.options(user="hanse", password="wrong-word"))
    assert "wrong-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_without_a_user_nothing_is_served(guarded: EtcdServers) -> None:
    with pytest.raises(StoreUnavailable, match="no user is given"):
        await EtcdStore.open(guarded.options())


async def test_what_a_user_may_not_do_is_refused_and_not_done(guarded: EtcdServers) -> None:
    store = await EtcdStore.open(guarded.options(user="half", password=PASSWORD))
    await put(store, "half/mine")
    with pytest.raises(StoreUnavailable, match="permission denied"):
        await store.transact(Txn((), (Put("half/mine", b"2"), Put("other", b"2"))))
    kv = await get(store, "half/mine")
    assert kv is not None
    assert kv.value == b"v"
    with pytest.raises(StoreUnavailable, match="permission denied"):
        await store.range("", KEYS_END)
    async with store.watch("", KEYS_END, from_revision=1) as watch:
        with pytest.raises(StoreUnavailable, match="does not let user 'half' watch"):
            await first(watch)
    async with store.watch("half/", "half0", from_revision=1) as watch:
        assert len(await collect_events(watch, 1)) == 1
    await store.close()


async def test_lost_tokens_are_replaced(guarded: EtcdServers) -> None:
    """A password changed to the same one voids all tokens. Open watches live on; new ones need the new token."""
    operator = Operator(guarded)
    operator._password = "root"
    store = await EtcdStore.open(guarded.options(user="hanse", password=PASSWORD))
    revision = await put(store, "token")
    async with store.watch("token", "token0", from_revision=revision) as before:
        assert len(await collect_events(before, 1)) == 1
        operator.change_password("hanse", PASSWORD)
        async with store.watch("token", "token0", from_revision=revision) as after:
            assert len(await collect_events(after, 1)) == 1
        operator.change_password("hanse", PASSWORD)
        await put(store, "token", b"2")
        assert len(await collect_events(before, 1)) == 1
        operator.change_password("hanse", PASSWORD)
        lease = await store.lease_grant(60.0)
        operator.change_password("hanse", PASSWORD)
        assert await store.lease_keep_alive(lease) > 0
    await store.close()


async def test_tokens_are_lost_with_a_restart(guarded: EtcdServers) -> None:
    store = await EtcdStore.open(guarded.options(user="hanse", password=PASSWORD))
    revision = await put(store, "restart")
    async with store.watch("restart", "restart0", from_revision=revision + 1) as watch:
        guarded.members[0].kill()
        guarded.members[0].launch()
        await guarded.members[0].wait_ready_async()
        last = await put(store, "restart")
        assert [event.kv.mod_revision for event in await collect_events(watch, 1)] == [last]
    await store.close()


async def test_authentication_may_be_enabled_while_we_run() -> None:
    """Set up in whichever order: a user whom etcd does not ask for is no error, and from then on he is needed."""
    with etcd_servers() as servers:
        operator = Operator(servers)
        operator.add_user("hanse", PASSWORD, "")
        store = await EtcdStore.open(servers.options(user="hanse", password=PASSWORD))
        await use(store, "before")
        operator.enable_auth("root")
        await use(store, "after")
        await store.close()


async def test_tls_with_certificates_of_both_sides(private: EtcdServers) -> None:
    store = await EtcdStore.open(private.options())
    await use(store, "tls")
    await store.close()


async def test_a_server_that_a_stranger_vouches_for_is_refused(
    private: EtcdServers, certificates: Certificates
) -> None:
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await EtcdStore.open(replace(private.options(), ca=certificates.other_ca), deadline_s=SOON_S)


@pytest.mark.parametrize("shown", ["none", "a stranger's"])
async def test_a_client_without_a_good_certificate_is_refused(
    private: EtcdServers, certificates: Certificates, shown: str
) -> None:
    cert, key = (None, None) if shown == "none" else (certificates.other_cert, certificates.other_key)
    options = EtcdOptions(endpoints=private.endpoints, ca=certificates.ca, cert=cert, key=key)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await EtcdStore.open(options, deadline_s=SOON_S)


async def test_a_certificate_names_the_user(certificates: Certificates) -> None:
    """Its common name; then there is no password to be kept anywhere."""
    with etcd_servers(certificates=certificates) as servers:
        operator = Operator(servers)
        operator.add_user("hanse", PASSWORD, "")
        operator.enable_auth("root")
        store = await EtcdStore.open(servers.options())
        await use(store, "common name")
        await store.close()


async def test_a_certificate_of_somebody_else_gets_nothing(certificates: Certificates) -> None:
    """Such as an agent's, where etcd believes the same authority as the links do."""
    with etcd_servers(certificates=certificates) as servers:
        operator = Operator(servers)
        operator.add_user("hanse", PASSWORD, "")
        operator.enable_auth("root")
        mine = await EtcdStore.open(servers.options())
        await put(mine, "secret")
        options = replace(servers.options(), cert=certificates.agent_cert, key=certificates.agent_key)
        with pytest.raises(StoreUnavailable, match="permission denied"):
            await EtcdStore.open(options, deadline_s=SOON_S)
        kept = await get(mine, "secret")
        assert kept is not None
        assert kept.value == b"v"
        await mine.close()


async def test_two_clusters_are_not_taken_for_one(one: EtcdServers, guarded: EtcdServers) -> None:
    """The member that answers first decides; a stranger is never asked for anything."""
    endpoints = (*one.endpoints, *guarded.endpoints)
    store = await EtcdStore.open(EtcdOptions(endpoints=endpoints, user="hanse", password=PASSWORD))
    await until(lambda: "belongs to another cluster" in store._cluster.trouble())
    await use(store, "mine")
    await store.close()
