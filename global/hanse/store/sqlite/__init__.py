"""The embedded store: one SQLite file, one process. Import ``SqliteStore`` from here; the rest is its
inside.

``store`` is the face on the event loop, ``writer`` the one thread that writes (group commit), ``readers``
the threads that read, ``file`` the file (lock, schema, statements), ``faults`` what SQLite's errors mean
to a caller.
"""

from hanse.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
