"""A token to join with, in the store: made, spent once whatever the number of replicas, forgotten when it is over.

Spending is one guarded write that names the key which the token was spent for, and comes before anything is signed. A
caller whose answer was lost asks again with the same key and is answered again, which gives him nothing that he did
not have; with another key the token is spent. An outcome that is unknown is settled by reading.
"""

import hmac
from dataclasses import dataclass
from typing import Final

import msgspec

from hanse.model.errors import Unavailable
from hanse.store import keys
from hanse.store.contract import Committed, Delete, KeyValue, ModRevisionIs, Put, Store, Txn, prefix_end
from hanse.store.schema import BarredValue, JoinTokenValue, decode, encode

JOIN_TOKENS_MAX: Final = 1_000
SPEND_TRIES_MAX: Final = 8
SPENT_KEPT_MS: Final = 24 * 3_600 * 1_000
"""A token that was spent is shown for so long, and then forgotten."""


@dataclass(frozen=True, slots=True)
class Spent:
    """A token was good.

    Attributes:
        barred_until_ms: certificates of the pool that began until then are revoked; 0 for none.
    """

    pool: str
    barred_until_ms: int


@dataclass(frozen=True, slots=True)
class NotSpent:
    """It was not; why, for the log alone: a caller is told no more than that."""

    why: str


async def spend(store: Store, token: str, digest: str, *, pool: str, key: str, now_ms: int) -> Spent | NotSpent:
    """Spend a token for a public key.

    Args:
        digest: of the secret that was said; see `hanse.kit.trust.token`.
        key: digest of the public key that is to be signed.

    Raises:
        StoreError; Unavailable: reason CONFLICT; it may be repeated.
    """
    place, barred = keys.join_token(token), keys.barred("agent", pool)
    for _ in range(SPEND_TRIES_MAX):
        read = await store.read([place, barred])
        found = read.items.get(place)
        if found is None:
            return NotSpent("there is none of that id")
        value = decode(found.value, JoinTokenValue)
        refusal = _refusal(value, digest, pool, key, now_ms)
        if refusal:
            return NotSpent(refusal)
        until_ms = decode(read.items[barred].value, BarredValue).until_ms if barred in read.items else 0
        if value.spent_key:
            return Spent(pool, until_ms)
        spent = msgspec.structs.replace(value, spent_ms=now_ms, spent_key=key)
        await store.transact(Txn((ModRevisionIs(place, found.mod_revision),), (Put(place, encode(spent)),)))
    raise Unavailable("the token is being spent by others at the same time; try again", reason="CONFLICT")


def _refusal(value: JoinTokenValue, digest: str, pool: str, key: str, now_ms: int) -> str:
    if not hmac.compare_digest(value.digest, digest):
        return "the secret is another one"
    if value.pool != pool:
        return f"it is for pool {value.pool}"
    if value.spent_key and value.spent_key != key:
        return "it was spent"
    if now_ms >= value.expires_ms:
        return "it is over"
    return ""


async def keep(store: Store, token: str, value: JoinTokenValue) -> None:
    """Keep a new token, whose id nobody else has drawn.

    Raises:
        StoreError; Unavailable: reason OUTCOME_UNKNOWN: make another one, this one runs out unspent.
    """
    key = keys.join_token(token)
    outcome = await store.transact(Txn((ModRevisionIs(key, 0),), (Put(key, encode(value)),)))
    if not isinstance(outcome, Committed):
        raise Unavailable("the store did not answer; ask again for a token", reason="OUTCOME_UNKNOWN")


async def kept(store: Store) -> list[tuple[KeyValue, JoinTokenValue]]:
    """Every token, oldest first. Raises StoreError."""
    found = await store.range(keys.TOKENS, prefix_end(keys.TOKENS), limit=2 * JOIN_TOKENS_MAX)
    read = [(kv, decode(kv.value, JoinTokenValue)) for kv in found.items]
    return sorted(read, key=lambda one: (one[1].created_ms, one[0].key))


async def forget_old(store: Store, *, now_ms: int) -> int:
    """Take out tokens that are over, or were spent long ago; how many are left. Raises StoreError."""
    tokens = await kept(store)
    gone = 0
    for kv, value in tokens:
        if now_ms < (value.spent_ms + SPENT_KEPT_MS if value.spent_ms else value.expires_ms):
            continue
        done = await store.transact(Txn((ModRevisionIs(kv.key, kv.mod_revision),), (Delete(kv.key),)))
        gone += isinstance(done, Committed)
    return len(tokens) - gone
