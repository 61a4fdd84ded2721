"""A thread that hands batches to an exporter, behind a bounded queue.

Whoever puts something in never waits: what the queue cannot hold is dropped and counted, the oldest first, because
what has just happened is what somebody will look for. The exporter may take as long as it likes, and fail; then its
batch is dropped too. That a collector is down is said once, and that it is back once more.

The thread is a daemon, so an exporter that hangs cannot hold up the end of the process.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from hanse.kit.telemetry import metrics

T = TypeVar("T")

log = logging.getLogger(__name__)

CLOSE_DEADLINE_S: Final = 2.0
"""How long a process that ends waits for what is left to be exported."""


class Outlet(Generic[T]):
    """See the module.

    Args:
        export: hands a batch over and says whether it was taken; called on the outlet's thread alone.
        halt: makes an export that is under way end soon.
        items_max: that wait.
        batch_max: items that are handed over at once.
        pause_s: in which items gather; a full batch does not wait for it.

    Attributes:
        exported, dropped: items until now.
    """

    def __init__(
        self,
        signal: str,
        export: Callable[[Sequence[T]], bool],
        *,
        halt: Callable[[], None],
        items_max: int,
        batch_max: int,
        pause_s: float,
    ) -> None:
        self.exported = 0
        self.dropped = 0
        self._signal = signal
        self._export = export
        self._halt = halt
        self._batch_max = batch_max
        self._pause_s = pause_s
        self._waiting: deque[T] = deque(maxlen=items_max)
        self._lost = 0  # written by whoever puts in; `dropped` is it and what the thread has lost
        self._full = threading.Event()
        self._closing = False
        self._down = False
        self._thread = threading.Thread(target=self._run, name=f"telemetry-{signal}", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Export this some time soon, or drop something. Never waits."""
        if len(self._waiting) == self._waiting.maxlen:
            self._lost += 1
        self._waiting.append(item)
        if len(self._waiting) >= self._batch_max and not self._full.is_set():
            self._full.set()

    def observe(self) -> None:
        """Tell the metrics about it."""
        metrics.EXPORTED.reach(self.exported, self._signal)
        metrics.DROPPED.reach(self.dropped + self._lost, self._signal)

    def close(self) -> None:
        """Export what is left, for at most CLOSE_DEADLINE_S. To be called on a thread that may wait."""
        self._closing = True
        self._full.set()
        self._thread.join(CLOSE_DEADLINE_S)
        self._halt()

    def _run(self) -> None:
        while not self._closing:
            self._full.wait(self._pause_s)
            self._full.clear()
            self._drain()
        self._drain()

    def _drain(self) -> None:
        """Hand over what waits now; after a failure not more than one batch, the rest gets another chance."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(self._batch_max, len(self._waiting)))]
            if not self._hand_over(batch):
                self.dropped += len(batch)
                return
            self.exported += len(batch)

    def _hand_over(self, batch: Sequence[T]) -> bool:
        try:
            taken = self._export(batch)
        except Exception:
            log.exception("telemetry_export_failed", extra={"signal": self._signal})
            return False
        if taken == self._down:
            self._down = not taken
            event = "telemetry_collector_back" if taken else "telemetry_collector_down"
            log.warning(event, extra={"signal": self._signal})
        return taken
