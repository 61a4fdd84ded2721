"""The file: schema, opening, and every SQL statement of the store, as functions on a connection.

``versions`` is an append-only log of every change since the last compaction; ``heads`` says for every
live key which version is current, and is kept by triggers, so that *one* INSERT of a whole group of
transactions is the whole commit. A version's id is its revision and its place within it, so the log's
order is the order of revisions, and the store's revision is that of the newest version (or of the
compaction, if that removed it).

**One step per statement.** Python's ``sqlite3`` gives up the interpreter lock around every step of a
statement, that is for every row, and waits up to 5 ms to get it back if the event loop is busy: a
thousand rows would take seconds. So rows travel as one JSON text plus one blob of all values, both ways.
(Measured: 60k keys/s like this; as fast as ``executemany`` when the loop is idle, and many times faster
when it is not.)

Not taken: ``heads`` with a copy of the value (twice the bytes), a list of live keys in memory (a million
of them), one row per key and a separate undo log (three writes instead of two).
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hanse.store.contract import (
    RANGE_BYTES_MAX,
    WATCH_BATCH_EVENTS_MAX,
    Compacted,
    Event,
    EventKind,
    KeyValue,
    StoreUnavailable,
    WatchBatch,
)
from hanse.store.judge import EMPTY_REVISION, Head
from hanse.store.sqlite.faults import unavailable

APPLICATION_ID: Final = 0x48616E73
SCHEMA_VERSION: Final = 1
SQLITE_MIN: Final = (3, 35, 0)

PLACE_BITS: Final = 24
"""A version's id is ``revision << PLACE_BITS | place``: 16 million changes a revision, 5·10¹¹ revisions."""

BUSY_TIMEOUT_S: Final = 1.0
WAL_PAGES: Final = 4_000
"""The log is copied into the database once it has about so many pages (16 MB)."""

CACHE_KIB: Final = 32_768
READ_KEYS_STEP: Final = 512
"""Keys of one statement, so that their values stay below SQLite's limit of 10⁹ bytes for one."""

CHECK_BYTES_MAX: Final = 64 * 1_024 * 1_024
"""A file up to this size is checked for damage when it is opened (about 0.2 s); a larger one when it is
used."""

PURGE_VERSIONS: Final = 2_000
"""Versions that one step of a compaction looks at: about 10 ms during which nobody else writes."""

_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE versions (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL,
    create_revision INTEGER NOT NULL, lease INTEGER NOT NULL, deleted INTEGER NOT NULL);
CREATE INDEX versions_by_key ON versions (key, id);
CREATE TABLE heads (
    key TEXT PRIMARY KEY, id INTEGER NOT NULL, create_revision INTEGER NOT NULL, lease INTEGER NOT NULL,
    size INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX heads_by_lease ON heads (lease) WHERE lease != 0;
CREATE TRIGGER put AFTER INSERT ON versions WHEN NEW.deleted = 0 BEGIN
    INSERT INTO heads VALUES (NEW.key, NEW.id, NEW.create_revision, NEW.lease, length(NEW.value))
    ON CONFLICT (key) DO UPDATE SET id = excluded.id, create_revision = excluded.create_revision,
        lease = excluded.lease, size = excluded.size;
END;
CREATE TRIGGER cut AFTER INSERT ON versions WHEN NEW.deleted = 1 BEGIN
    DELETE FROM heads WHERE key = NEW.key;
END;
CREATE TABLE leases (id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_s REAL NOT NULL);
CREATE TABLE compaction (
    one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL, purged_id INTEGER NOT NULL);
INSERT INTO compaction VALUES (1, 0, 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""

_AT: Final = f"""(
    SELECT max({EMPTY_REVISION}, ifnull((SELECT max(id) >> {PLACE_BITS} FROM versions), 0), revision)
    FROM compaction), (SELECT revision FROM compaction)"""
"""Two columns: the store's revision and its compact revision."""

_ROWS: Final = """json_group_array(json_array(key, id, create_revision, lease, size, deleted)),
    CAST(group_concat(value, '') AS BLOB)"""
"""Two columns that hold all rows of a subquery: see ``_split``."""

_LIVE: Final = "SELECT key, id, create_revision, lease, size FROM heads WHERE key >= ?1 AND key < ?2"

_PAST: Final = """SELECT key, id, create_revision, lease, length(value) AS size FROM versions AS v
    WHERE key >= ?1 AND key < ?2 AND id < ?3 AND deleted = 0
    AND NOT EXISTS (SELECT 1 FROM versions AS n WHERE n.key = v.key AND n.id > v.id AND n.id < ?3)"""


class Stamp(NamedTuple):
    """Where the store was when something was read."""

    revision: int
    compact_revision: int


_Row = tuple[str, int, int, int, int, int]
_rows = msgspec.json.Decoder(list[_Row])
_heads = msgspec.json.Decoder(list[tuple[str, int, int]])
_keys = msgspec.json.Decoder(list[str])


# ------------------------------------------------------------------------------------------------ opening


def create_or_check(path: Path) -> None:
    """Make the file if there is none; raises ``StoreUnavailable`` if it cannot be, or is not, a store of
    ours."""
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        wanted = ".".join(map(str, SQLITE_MIN))
        raise StoreUnavailable(f"store {path}: SQLite {sqlite3.sqlite_version} is too old, {wanted} is needed")
    try:
        conn = connect(path)
        try:
            _create_or_check(conn, path)
        finally:
            conn.close()
    except sqlite3.Error as error:
        raise unavailable(error, path) from error


def connect(path: Path) -> sqlite3.Connection:
    """A connection without implicit transactions, durable at every commit, usable from any thread (one at
    a time)."""
    conn = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        conn.execute("PRAGMA synchronous = FULL")
        conn.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        conn.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    except sqlite3.Error:
        conn.close()
        raise
    return conn


def _create_or_check(conn: sqlite3.Connection, path: Path) -> None:
    application, version = _pragma(conn, "application_id"), _pragma(conn, "user_version")
    if not application and not conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.executescript(_SCHEMA)
        return
    if application != APPLICATION_ID:
        raise StoreUnavailable(f"store {path}: a SQLite database of another program: use another file")
    if version != SCHEMA_VERSION:
        raise StoreUnavailable(
            f"store {path}: written by another version of Hanse (schema {version}, this one knows {SCHEMA_VERSION})"
        )
    if path.stat().st_size <= CHECK_BYTES_MAX:
        found = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreUnavailable(
                f"store {path}: the file is damaged, restore it from a backup ({found.splitlines()[0]})"
            )
    stamp(conn)


def _pragma(conn: sqlite3.Connection, name: str) -> int:
    return int(conn.execute(f"PRAGMA {name}").fetchone()[0])


# ------------------------------------------------------------------------------------------------ reading


def stamp(conn: sqlite3.Connection) -> Stamp:
    return Stamp(*conn.execute(f"SELECT {_AT}").fetchone())


def read_keys(conn: sqlite3.Connection, keys: Sequence[str]) -> tuple[list[KeyValue], Stamp]:
    """The live ones among the keys, all from one moment."""
    found = "SELECT h.*, 0 AS deleted, v.value FROM heads AS h JOIN versions AS v USING (id)"
    sql = f"SELECT {_ROWS}, {_AT} FROM ({found} WHERE h.key IN (SELECT value FROM json_each(?1)))"
    items: list[KeyValue] = []
    with _snapshot(conn):
        for at in range(0, len(keys), READ_KEYS_STEP):
            rows, values, *_ = conn.execute(sql, (_json(keys[at : at + READ_KEYS_STEP]),)).fetchone()
            items += [_key_value(row, value) for row, value in _split(_rows.decode(rows), values)]
        return items, stamp(conn)


@contextmanager
def _snapshot(conn: sqlite3.Connection) -> Iterator[None]:
    """Everything read inside is from one moment."""
    conn.execute("BEGIN")
    try:
        yield
    finally:
        conn.execute("ROLLBACK")


class Page(NamedTuple):
    items: list[KeyValue]
    more: bool
    stamp: Stamp


def read_page(
    conn: sqlite3.Connection, start: str, end: str, *, limit: int, at_revision: int, keys_only: bool
) -> Page:
    """One page, now (0) or at a revision; the caller compares the revision with the stamp. Raises
    ``Compacted``."""
    source = f"{_PAST if at_revision else _LIVE} ORDER BY key LIMIT ?4"
    bounds = (start, end, (at_revision + 1) << PLACE_BITS)
    total, size, *_ = conn.execute(f"SELECT count(*), sum(size) FROM ({source})", (*bounds, limit + 1)).fetchone()
    if not keys_only and size is not None and size > RANGE_BYTES_MAX:
        limit = min(limit, _affordable(conn, source, bounds, total))
    value, join = ("x'' AS value", "") if keys_only else ("v.value", "JOIN versions AS v USING (id)")
    page = f"SELECT p.*, 0 AS deleted, {value} FROM ({source}) AS p {join}"
    rows, values, *at = conn.execute(f"SELECT {_ROWS}, {_AT} FROM ({page})", (*bounds, limit + 1)).fetchone()
    stamp_ = Stamp(*at)
    if at_revision and at_revision < stamp_.compact_revision:
        raise Compacted(stamp_.compact_revision)
    decoded = _rows.decode(rows)
    valued = ((row, b"") for row in decoded) if keys_only else _split(decoded, values)
    items = sorted((_key_value(row, value) for row, value in valued), key=lambda kv: kv.key)
    return Page(items[:limit], len(items) > limit, stamp_)


def _affordable(conn: sqlite3.Connection, source: str, bounds: tuple[str, str, int], total: int) -> int:
    """How many of the first ``total`` rows stay within a page's bytes; at least one."""
    before = "sum(size) OVER (ORDER BY key ROWS UNBOUNDED PRECEDING) - size"
    sql = f"SELECT count(*) FROM (SELECT {before} AS before FROM ({source})) WHERE before < {RANGE_BYTES_MAX}"
    return max(1, int(conn.execute(sql, (*bounds, total)).fetchone()[0]))


def read_events(conn: sqlite3.Connection, start: str, end: str, *, first: int, last: int) -> WatchBatch:
    """See ``feed.History``. Ends early at ``RANGE_BYTES_MAX`` too."""
    events, all_read = _events(conn, start, end, first=first, last=last, limit=WATCH_BATCH_EVENTS_MAX)
    if all_read:
        return WatchBatch(last, tuple(events))
    split = events[-1].kv.mod_revision
    whole = [event for event in events if event.kv.mod_revision < split]
    whole += _events(conn, start, end, first=split, last=split, limit=-1)[0]
    return WatchBatch(split, tuple(whole))


def _events(
    conn: sqlite3.Connection, start: str, end: str, *, first: int, last: int, limit: int
) -> tuple[list[Event], bool]:
    """Up to ``limit`` events (-1: all) of about ``RANGE_BYTES_MAX`` bytes, and whether those are all."""
    some = """SELECT id, length(value) AS size FROM versions
        WHERE id >= ?3 AND id < ?4 AND key >= ?1 AND key < ?2 ORDER BY id LIMIT ?5"""
    summed = f"SELECT id, size, sum(size) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total FROM ({some})"
    page = f"""SELECT v.key AS key, v.id AS id, v.create_revision AS create_revision, v.lease AS lease,
    s.size AS size, v.deleted AS deleted, CASE WHEN s.total - s.size < {RANGE_BYTES_MAX} THEN v.value END
    AS value FROM ({summed}) AS s CROSS JOIN versions AS v ON v.id = s.id"""
    bounds = (start, end, first << PLACE_BITS, (last + 1) << PLACE_BITS, limit)
    rows, values, _, compacted = conn.execute(f"SELECT {_ROWS}, {_AT} FROM ({page})", bounds).fetchone()
    if first <= compacted:
        raise Compacted(compacted)
    found = _rows.decode(rows)
    within = [row for row, total in zip(found, _totals(found), strict=True) if total < RANGE_BYTES_MAX]
    events = [_event(row, value) for row, value in _split(within, values)]
    return events, len(events) == len(found) and len(found) != limit


def _totals(rows: Sequence[_Row]) -> Iterator[int]:
    """Of every row: the bytes of the values before it."""
    return accumulate((row[4] for row in rows[:-1]), initial=0) if rows else iter(())


# ------------------------------------------------------------------------------------------------ writing


def heads_of(conn: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Head]:
    """Creation and modification revision of those keys that exist."""
    sql = """SELECT json_group_array(json_array(key, create_revision, id)) FROM heads
        WHERE key IN (SELECT value FROM json_each(?1))"""
    (rows,) = conn.execute(sql, (_json(list(keys)),)).fetchone()
    return {key: (created, id_ >> PLACE_BITS) for key, created, id_ in _heads.decode(rows)}


def append(conn: sqlite3.Connection, events: Sequence[Event]) -> None:
    """Add events in revision order: one statement, and outside a transaction one commit."""
    rows: list[tuple[int, str, int, int, int, int, int]] = []
    values: list[bytes] = []
    offset, place, revision = 1, 0, 0
    for event in events:
        kv = event.kv
        place = place + 1 if kv.mod_revision == revision else 0
        revision = kv.mod_revision
        gone = event.kind is EventKind.DELETE
        id_ = revision << PLACE_BITS | place
        rows.append((id_, kv.key, offset, len(kv.value), kv.create_revision, kv.lease, int(gone)))
        values.append(kv.value)
        offset += len(kv.value)
    column = "json_extract(value, '$[{}]')".format
    piece = f"ifnull(CAST(substr(?2, {column(2)}, {column(3)}) AS BLOB), x'')"
    columns = ", ".join((column(0), column(1), piece, column(4), column(5), column(6)))
    conn.execute(f"INSERT INTO versions SELECT {columns} FROM json_each(?1)", (_json(rows), b"".join(values)))


def add_lease(conn: sqlite3.Connection, ttl_s: float) -> int:
    return int(conn.execute("INSERT INTO leases (ttl_s) VALUES (?)", (ttl_s,)).lastrowid or 0)


def remove_lease(conn: sqlite3.Connection, lease: int) -> None:
    conn.execute("DELETE FROM leases WHERE id = ?", (lease,))


def leases(conn: sqlite3.Connection) -> dict[int, float]:
    """Every lease with its time to live in seconds."""
    return dict(conn.execute("SELECT id, ttl_s FROM leases ORDER BY id").fetchall())


def keys_of_lease(conn: sqlite3.Connection, lease: int, *, limit: int) -> list[str]:
    some = "SELECT key FROM heads WHERE lease = ?1 AND lease != 0 ORDER BY key LIMIT ?2"
    (rows,) = conn.execute(f"SELECT json_group_array(key) FROM ({some})", (lease, limit)).fetchone()
    return _keys.decode(rows)


def compact(conn: sqlite3.Connection, revision: int) -> None:
    """Declare older history gone; ``purge`` then removes it."""
    conn.execute("UPDATE compaction SET revision = max(revision, ?)", (revision,))


def purge(conn: sqlite3.Connection) -> bool:
    """One step of removing what no read at or after the compact revision sees, in a transaction of its
    own; False if nothing is left to do.

    Every event up to that revision makes the older versions of its key superfluous, and itself if it is a
    deletion.
    """
    (limit, done) = conn.execute("SELECT (revision + 1) << ?, purged_id FROM compaction", (PLACE_BITS,)).fetchone()
    step = "SELECT id FROM versions WHERE id > ? AND id < ? ORDER BY id LIMIT ?"
    (to,) = conn.execute(f"SELECT max(id) FROM ({step})", (done, limit, PURGE_VERSIONS)).fetchone()
    if to is None:
        return False
    newest = "SELECT key, max(id) AS id FROM versions WHERE id > ?1 AND id <= ?2 GROUP BY key"
    older = f"SELECT o.id FROM ({newest}) AS n JOIN versions AS o ON o.key = n.key AND o.id < n.id"
    conn.execute("BEGIN IMMEDIATE")
    conn.execute(f"DELETE FROM versions WHERE id IN ({older})", (done, to))
    conn.execute("DELETE FROM versions WHERE id > ?1 AND id <= ?2 AND deleted = 1", (done, to))
    conn.execute("UPDATE compaction SET purged_id = ?", (to,))
    conn.execute("COMMIT")
    return True


# ------------------------------------------------------------------------------------------------ packing


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()


def _split(rows: Iterable[_Row], values: bytes | None) -> Iterator[tuple[_Row, bytes]]:
    """Each row with its value, cut out of the joined values by its size."""
    blob, offset = values or b"", 0
    for row in rows:
        yield row, blob[offset : offset + row[4]]
        offset += row[4]
    if offset != len(blob):
        raise sqlite3.DatabaseError(f"values of {len(blob)} bytes do not match their sizes, {offset} bytes")


def _key_value(row: _Row, value: bytes) -> KeyValue:
    key, id_, created, lease, _, _ = row
    return KeyValue(key, value, created, id_ >> PLACE_BITS, lease)


def _event(row: _Row, value: bytes) -> Event:
    return Event(EventKind.DELETE if row[5] else EventKind.PUT, _key_value(row, value))
