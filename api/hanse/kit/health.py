"""Whether this process should be sent work: said by whoever knows, asked by whoever answers probes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Health:
    """Of a process. Until somebody says otherwise it is ready, as one is that nobody sends work to."""

    def __init__(self) -> None:
        self._ready: Callable[[], bool] | None = None

    @property
    def ready(self) -> bool:
        return self._ready is None or self._ready()

    @contextmanager
    def told_by(self, ready: Callable[[], bool]) -> Iterator[None]:
        """While the block runs, ask this."""
        before, self._ready = self._ready, ready
        try:
            yield
        finally:
            self._ready = before


HEALTH = Health()
"""The process's own."""
