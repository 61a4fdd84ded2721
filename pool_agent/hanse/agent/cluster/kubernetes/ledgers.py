"""Who may write, and the gang records: ConfigMaps in the cluster, changed only as they were seen (P7, P8).

A Kubernetes write can depend on the version of the object that it writes, and on no other object. So the records of
all gangs lie in a fixed number of *ledgers*, each with the epoch of its owner, and a claim rewrites the claim object
and then every ledger. From that moment on whatever an older agent sends, however late it arrives, names a version
that is past: it is refused, also a record that did not exist before. What an agent decides is decided by one write to
a ledger, and no clock, lease or tombstone is needed for it. (The rejected alternatives: docs/adr.)

Writes to one ledger that come together become one request. A refused version is looked at again: it is ours if the
epoch still is, because somebody may have touched the object's labels; otherwise we are superseded.
"""

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import CONFLICT, NOT_FOUND, Api, Refused
from hanse.agent.cluster.kubernetes.names import (
    CLAIM_NAME,
    EPOCH,
    FEDERATION,
    LEDGER,
    POOL,
    epoch_of,
    epoch_text,
    gang_of,
    gang_text,
    ledger_name,
)
from hanse.agent.cluster.kubernetes.objects import CONFIG, PLAIN, Body, ConfigObject, read
from hanse.agent.cluster.kubernetes.settings import LEDGERS_MAX, KubernetesSettings
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.agent.cluster.kubernetes.stored import Stored, decode, encode
from hanse.agent.cluster.kubernetes.verdicts import version_of
from hanse.agent.cluster.kubernetes.watching import list_all
from hanse.agent.cluster.port import Claim, ClusterUnavailable, Epoch, GangKey, Superseded

LEDGER_BYTES_MAX: Final = 900_000
"""A ConfigMap holds 1 MiB; this leaves room for its metadata."""

LATER_BYTES: Final = 240
"""What a record may grow by until it is forgotten, with the rest of its key."""

LATER_BYTES_PER_POD: Final = 15
"""What it may grow by for each pod that is let go; no text of random bytes can be made shorter."""

TRIES_MAX: Final = 5
TAKEN_OVER_AT_ONCE: Final = 16
LEDGERS_PAGE: Final = 16
_NAMESPACES: Final = "/api/v1/namespaces"
_CONTENT: Final = frozenset({400, 413, 422})
"""What is wrong with the request itself, and stays so."""

_Entries = Mapping[GangKey, Stored | None]


@dataclass(eq=False, slots=True)
class _Change:
    """What one caller wants written under an epoch; `refusals` where the cluster says no, `error` if nobody knows."""

    epoch: Epoch
    entries: dict[GangKey, Stored | None]
    done: bool = False
    refusals: dict[GangKey, str] = field(default_factory=dict)
    error: Exception | None = None


@dataclass(eq=False, slots=True)
class _Ledger:
    """One ledger as it was seen last."""

    number: int
    version: str = ""
    epoch: Epoch = Epoch()
    texts: dict[GangKey, str] = field(default_factory=dict)
    stored: dict[GangKey, Stored] = field(default_factory=dict)
    waiting: list[_Change] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def has_room(self, entries: _Entries, texts: Mapping[GangKey, str | None]) -> bool:
        """Whether records that are new fit in; what happens to those that are there always does."""
        new = {key: stored for key, stored in entries.items() if stored is not None and key not in self.texts}
        return not new or _bytes(self.stored, self.texts) + _bytes(new, texts) <= LEDGER_BYTES_MAX

    def see(self, found: ConfigObject) -> None:
        """The object is like that now; what is older than what was seen says nothing."""
        if version_of(found.metadata.resource_version) < version_of(self.version):
            return
        self.version = found.metadata.resource_version
        self.epoch = epoch_of(found.metadata.annotations.get(EPOCH, ""))
        texts = {key: text for name, text in found.data.items() if (key := gang_of(name)) is not None}
        stored = {key: self._read(key, text) for key, text in texts.items()}
        self.texts, self.stored = texts, stored

    def _read(self, key: GangKey, text: str) -> Stored:
        if self.texts.get(key) == text:
            return self.stored[key]
        try:
            return decode(key, text)
        except ValueError as error:
            what = f"{ledger_name(self.number)}: the record of {key} cannot be read: {error}; mend or remove it"
            raise ClusterUnavailable(what) from None

    def write(self, entries: _Entries, texts: Mapping[GangKey, str | None], version: str) -> None:
        """These entries are in effect."""
        self.version = version
        for key, stored in entries.items():
            text = texts[key]
            if stored is None or text is None:
                self.texts.pop(key, None)
                self.stored.pop(key, None)
            else:
                self.texts[key], self.stored[key] = text, stored


def _bytes(entries: Mapping[GangKey, Stored], texts: Mapping[GangKey, str | None]) -> int:
    return sum(len(texts[key] or "") + len(key.job) + _later(stored) for key, stored in entries.items())


def _later(stored: Stored) -> int:
    """What a record may still grow by."""
    return LATER_BYTES + (0 if stored.let else LATER_BYTES_PER_POD * stored.pods)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The claim object: what it says, its version ("" if there is none), and the number of ledgers."""

    claim: Claim
    version: str
    ledgers: int


class Ledgers:
    """See the module.

    Attributes:
        epoch: under which this process owns the ledgers; Epoch() if it does not.
        claim: as it was seen last.
    """

    def __init__(self, api: Api, settings: KubernetesSettings, pool: str) -> None:
        self._api = api
        self._settings = settings
        self._pool = pool
        self._uid = ""
        self._claim_version = ""
        self._ledgers: dict[int, _Ledger] = {}
        self._count = settings.ledgers
        self._folder = f"{_NAMESPACES}/{settings.system_namespace}/configmaps"
        self.epoch = Epoch()
        self.claim = Claim("", "", Epoch(), 0)

    # ---- reading ------------------------------------------------------------------------------------------

    def get(self, key: GangKey) -> Stored | None:
        """The record of a gang."""
        ledger = self._ledgers.get(self._number(key))
        return ledger.stored.get(key) if ledger is not None else None

    def records(self) -> list[Stored]:
        """All records, in the order in which their bindings were created."""
        every = (stored for ledger in self._ledgers.values() for stored in ledger.stored.values())
        return sorted(every, key=lambda stored: (stored.record.revision, stored.record.key))

    async def read_claim(self) -> Claim:
        """Who may write now."""
        return (await self._read()).claim

    async def refresh(self) -> None:
        """See the claim and all records as they are now."""
        seen = await self._read()
        self._count = seen.ledgers
        await self._see_all()

    async def _read(self) -> _Seen:
        try:
            if not self._uid:
                self._uid = read(PLAIN, await self._api.get(f"{_NAMESPACES}/kube-system")).metadata.uid
            found = read(CONFIG, await self._api.get(f"{self._folder}/{CLAIM_NAME}"))
        except Refused as refused:
            if refused.code != NOT_FOUND or not self._uid:
                raise ClusterUnavailable(f"the claim cannot be read: {refused}") from None
            seen = _Seen(Claim(self._uid, "", Epoch(), 0), "", self._settings.ledgers)
        else:
            seen = self._said(found)
        self.claim, self._claim_version = seen.claim, seen.version
        return seen

    def _said(self, found: ConfigObject) -> _Seen:
        said = found.data
        try:
            revision, ledgers = int(said["revision"]), int(said["ledgers"])
            claim = Claim(self._uid, said["federation"], epoch_of(said["epoch"]), revision)
        except (KeyError, ValueError) as error:
            raise ClusterUnavailable(f"{CLAIM_NAME}: its data cannot be read: {error}; mend it") from None
        if not 1 <= ledgers <= LEDGERS_MAX:
            raise ClusterUnavailable(f"{CLAIM_NAME}: data.ledgers is {ledgers}, not 1..{LEDGERS_MAX}; mend it")
        return _Seen(claim, found.metadata.resource_version, ledgers)

    async def _see_all(self) -> None:
        """All ledgers, page by page: each may be a megabyte."""
        seen: set[str] = set()

        def take(item: msgspec.Raw) -> None:
            found = read(CONFIG, item)
            number = numbers.get(found.metadata.name)
            if number is not None:
                seen.add(found.metadata.name)
                self._ledger(number).see(found)

        numbers = {ledger_name(number): number for number in range(self._count)}
        await list_all(self._api, self._folder, take, {"labelSelector": LEDGER}, page=LEDGERS_PAGE)
        for name, number in numbers.items():
            if name not in seen and number in self._ledgers and not self._ledgers[number].turn.locked():
                del self._ledgers[number]

    def _ledger(self, number: int) -> _Ledger:
        return self._ledgers.setdefault(number, _Ledger(number))

    def _number(self, key: GangKey) -> int:
        return zlib.crc32(key.job.encode()) % self._count

    # ---- claiming -----------------------------------------------------------------------------------------

    async def claim_for(self, federation: str, epoch: Epoch, revision: int) -> Claim:
        """Make `epoch` the only one that may write. Raises Superseded, ClusterUnavailable."""
        self.epoch = Epoch()
        wanted = Claim(self._uid, federation, epoch, revision)
        for _ in range(TRIES_MAX):
            seen = await self._read()
            why = why_not(seen.claim, wanted)
            if why:
                raise Superseded(why)
            if await self._write_claim(seen, wanted):
                break
        else:
            raise ClusterUnavailable(f"{CLAIM_NAME} changes all the time; somebody else claims the cluster too")
        self._count = seen.ledgers
        await self._take_over(epoch)
        return self.claim

    async def own(self, epoch: Epoch) -> None:
        """Be the writer of the claimed epoch. Raises Superseded if that is another one."""
        if epoch != Epoch() and epoch == self.epoch:
            return
        seen = await self._read()
        if epoch == Epoch() or seen.claim.epoch != epoch:
            raise self._superseded(epoch)
        self._count = seen.ledgers
        await self._take_over(epoch)

    async def verify(self, epoch: Epoch) -> None:
        """Look whether this epoch still is the writer. Raises Superseded."""
        self._check(epoch, (await self._read()).claim)

    async def accept(self, epoch: Epoch, revision: int) -> None:
        """Remember a newer accepted revision; a claim that was only looked at gives no right to write it.

        Raises:
            Superseded: the claim is another epoch's.
        """
        for _ in range(TRIES_MAX):
            self._check(epoch, self.claim)
            if revision <= self.claim.accepted_revision:
                await self.verify(epoch)
                return
            wanted = replace(self.claim, accepted_revision=revision)
            if await self._write_claim(_Seen(self.claim, self._claim_version, self._count), wanted):
                return
            await self.verify(epoch)
        raise ClusterUnavailable(f"{CLAIM_NAME} changes all the time; find out who writes to it")

    def _check(self, epoch: Epoch, claim: Claim) -> None:
        if not (epoch == claim.epoch == self.epoch):
            raise self._superseded(epoch)

    async def _write_claim(self, seen: _Seen, wanted: Claim) -> bool:
        """Whether it was still as it was seen."""
        if seen.version and replace(seen.claim, cluster_uid="") == replace(wanted, cluster_uid=""):
            return True
        data = {
            "federation": wanted.federation,
            "epoch": epoch_text(wanted.epoch),
            "revision": str(wanted.accepted_revision),
            "ledgers": str(seen.ledgers),
        }
        meta: Body = {"name": CLAIM_NAME, "labels": {FEDERATION: wanted.federation, POOL: self._pool}}
        if seen.version:
            meta["resourceVersion"] = seen.version
        written = await self._put(CLAIM_NAME, {"metadata": meta, "data": data}, create=not seen.version)
        if written:
            self.claim, self._claim_version = replace(wanted, cluster_uid=self._uid), written
        return bool(written)

    async def _take_over(self, epoch: Epoch) -> None:
        """Rewrite every ledger, so that nothing which was sent before this can change one."""
        await self._see_all()
        await spread(range(self._count), lambda number: self._take(number, epoch), at_once=TAKEN_OVER_AT_ONCE)
        self.epoch = epoch

    async def _take(self, number: int, epoch: Epoch) -> None:
        ledger, name = self._ledger(number), ledger_name(number)
        for _ in range(TRIES_MAX):
            if ledger.epoch > epoch:
                raise Superseded(f"{name} belongs to the newer epoch {epoch_text(ledger.epoch)}")
            if ledger.version and ledger.epoch == epoch:
                return
            meta: Body = {"name": name, "annotations": {EPOCH: epoch_text(epoch)}}
            meta["labels"] = {LEDGER: str(number), FEDERATION: self.claim.federation, POOL: self._pool}
            if ledger.version:
                meta["resourceVersion"] = ledger.version
            version = await self._put(name, {"metadata": meta}, create=not ledger.version)
            if version:
                ledger.version, ledger.epoch = version, epoch
                return
            ledger.see(await self._reread(name))
        raise ClusterUnavailable(f"{name} changes all the time; find out who writes to it")

    # ---- writing ------------------------------------------------------------------------------------------

    async def change(self, epoch: Epoch, entries: _Entries) -> dict[GangKey, str]:
        """Write these records, None for one that is to go. Returns those that the cluster refuses, with the reason.

        What was asked under an epoch is never written under another, also when it waits for its turn meanwhile.

        Raises:
            Superseded: some or all of them were not written, and none will be.
            ClusterUnavailable: any of them may be in effect.
        """
        by_ledger: dict[int, dict[GangKey, Stored | None]] = {}
        for key, stored in entries.items():
            by_ledger.setdefault(self._number(key), {})[key] = stored
        refusals: dict[GangKey, str] = {}

        async def one(number: int) -> None:
            refusals.update(await self._change(number, epoch, by_ledger[number]))

        await spread(by_ledger, one, at_once=TAKEN_OVER_AT_ONCE)
        return refusals

    async def _change(self, number: int, epoch: Epoch, entries: dict[GangKey, Stored | None]) -> dict[GangKey, str]:
        ledger = self._ledgers.get(number)
        if ledger is None:
            raise ClusterUnavailable(f"{ledger_name(number)} is gone from the cluster; the next claim makes it anew")
        mine = _Change(epoch, entries)
        ledger.waiting.append(mine)
        try:
            async with ledger.turn:
                if not mine.done:
                    together, ledger.waiting = ledger.waiting, []
                    await self._write_together(ledger, together)
        finally:
            if mine in ledger.waiting:
                ledger.waiting.remove(mine)
        if mine.error is not None:
            raise mine.error
        return mine.refusals

    async def _write_together(self, ledger: _Ledger, changes: list[_Change]) -> None:
        """One request for all that wait under our epoch; what becomes of it becomes of each."""
        epoch = self.epoch
        for change in changes:
            if change.epoch != epoch:
                change.done, change.error = True, self._superseded(change.epoch)
        changes = [change for change in changes if not change.done]
        entries = {key: stored for change in changes for key, stored in change.entries.items()}
        error: Exception | None = ClusterUnavailable(f"{ledger_name(ledger.number)}: the write was broken off")
        refusals: dict[GangKey, str] = {}
        try:
            refusals = await self._patch(ledger, epoch, entries)
            error = None
        except (Superseded, ClusterUnavailable) as failed:
            error = failed
        finally:
            for change in changes:
                change.refusals = {key: refusals[key] for key in change.entries if key in refusals}
                change.done, change.error = True, error

    async def _patch(self, ledger: _Ledger, epoch: Epoch, entries: _Entries) -> dict[GangKey, str]:
        """Write entries in one request, or one by one where the cluster refuses them together: one that it never
        takes is no reason to refuse the others."""
        refusal = await self._patch_once(ledger, epoch, entries) if entries else ""
        if not refusal or len(entries) == 1:
            return dict.fromkeys(entries, refusal) if refusal else {}
        alone = {key: await self._patch_once(ledger, epoch, {key: stored}) for key, stored in entries.items()}
        return {key: refusal for key, refusal in alone.items() if refusal}

    async def _patch_once(self, ledger: _Ledger, epoch: Epoch, entries: _Entries) -> str:
        """Why the cluster refuses this, "" if it is in effect."""
        texts = {key: None if stored is None else encode(stored) for key, stored in entries.items()}
        name = ledger_name(ledger.number)
        if not ledger.has_room(entries, texts):
            return f"{name} is full; raise the number of ledgers"
        data = {gang_text(key): text for key, text in texts.items()}
        for _ in range(TRIES_MAX):
            if not (epoch == ledger.epoch == self.epoch):
                raise self._superseded(epoch)
            body: Body = {"metadata": {"resourceVersion": ledger.version}, "data": data}
            try:
                version = await self._change_object(name, body)
            except Refused as refused:
                if refused.code in _CONTENT:
                    return str(refused)
                raise ClusterUnavailable(f"{name} cannot be written: {refused}") from None
            if version:
                ledger.write(entries, texts, version)
                return ""
            ledger.see(await self._reread(name))
        raise ClusterUnavailable(f"{name} changes all the time; find out who writes to it")

    def _superseded(self, epoch: Epoch) -> Superseded:
        if epoch == self.epoch:
            self.epoch = Epoch()
        now = epoch_text(self.claim.epoch)
        return Superseded(f"epoch {epoch_text(epoch)} may not write; the cluster is claimed for {now}")

    # ---- requests -----------------------------------------------------------------------------------------

    async def _put(self, name: str, body: Body, *, create: bool) -> str:
        """Create or change an object as it was seen; returns its version, "" if it was not so any more."""
        try:
            return await (self._create_object(body) if create else self._change_object(name, body))
        except Refused as refused:
            raise ClusterUnavailable(f"{name} cannot be written: {refused}") from None

    async def _change_object(self, name: str, body: Body) -> str:
        """Change an object as it was seen; returns its version, "" if it was not so any more. Raises Refused."""
        try:
            answer = await self._api.patch(f"{self._folder}/{name}", body, brief=True)
        except Refused as refused:
            if refused.code == CONFLICT:
                return ""
            if refused.code == NOT_FOUND:
                what = f"{name} is gone from the cluster; the next claim makes it anew"
                raise ClusterUnavailable(what) from None
            raise
        return read(PLAIN, answer).metadata.resource_version

    async def _create_object(self, body: Body) -> str:
        """Create an object; the same answer. Raises Refused."""
        try:
            answer = await self._create({"apiVersion": "v1", "kind": "ConfigMap", **body})
        except Refused as refused:
            if refused.code == CONFLICT:
                return ""
            raise
        return read(PLAIN, answer).metadata.resource_version

    async def _create(self, body: Body) -> bytes:
        try:
            return await self._api.post(self._folder, body)
        except Refused as refused:
            if refused.code != NOT_FOUND:
                raise
        await self._ensure_namespace(self._settings.system_namespace)
        return await self._api.post(self._folder, body)

    async def _ensure_namespace(self, name: str) -> None:
        """Make it, unless it is there: where an administrator has made it, we may have no right to."""
        body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._api.get(f"{_NAMESPACES}/{name}")
        except Refused as refused:
            if refused.code != NOT_FOUND:
                raise ClusterUnavailable(f"namespace {name} cannot be read: {refused}") from None
        else:
            return
        try:
            await self._api.post(_NAMESPACES, body)
        except Refused as refused:
            if refused.code != CONFLICT:
                raise ClusterUnavailable(f"namespace {name} is not there and cannot be made: {refused}") from None

    async def _reread(self, name: str) -> ConfigObject:
        try:
            return read(CONFIG, await self._api.get(f"{self._folder}/{name}"))
        except Refused as refused:
            raise ClusterUnavailable(f"{name} cannot be read: {refused}") from None


def why_not(present: Claim, wanted: Claim) -> str:
    """Why a claim is refused; "" if it is not."""
    if not wanted.federation:
        return "a claim needs a federation"
    if present.federation and wanted.federation != present.federation:
        return f"the cluster belongs to federation {present.federation!r}"
    if wanted.epoch < present.epoch:
        return f"epoch {epoch_text(wanted.epoch)} is older than the claimed {epoch_text(present.epoch)}"
    same_life = wanted.epoch.incarnation == present.epoch.incarnation
    if same_life and wanted.accepted_revision < present.accepted_revision:
        return f"revision {wanted.accepted_revision} is older than the accepted {present.accepted_revision}"
    return ""
