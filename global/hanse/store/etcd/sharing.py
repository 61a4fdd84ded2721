"""Which watches are fed by another one whose range holds theirs.

A replica watches the bindings of every pool and, for all pools together, the range in which they lie. Sent by etcd,
each transaction of many gangs would be an answer for nearly every one of these watches, made there and taken apart
here, each with events that have come already. So a watch whose range lies in that of a *host* is its *guest*: etcd
does not have it, and whatever the host takes into its buffer is offered to the guests whose keys it is about.

A guest joins when its cursor is not behind its host's: what comes next for it will come to the host too. It leaves
with its cursor, and is served from there by whoever can. Hosts are no guests.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from hanse.store.contract import Event
from hanse.store.etcd.watch import EtcdWatch


class Sharing:
    """See the module."""

    def __init__(self) -> None:
        self._host_of: dict[EtcdWatch, EtcdWatch] = {}
        self._guests: dict[EtcdWatch, _Guests] = {}

    def has_host(self, watch: EtcdWatch) -> bool:
        """Whether it is somebody's guest."""
        return watch in self._host_of

    def join(self, guest: EtcdWatch, host: EtcdWatch) -> None:
        """From now on the host's events are offered to it."""
        self._host_of[guest] = host
        self._seat(host, (*self.guests(host), guest))

    def leave(self, guest: EtcdWatch) -> None:
        """Not any more; nothing happens if it is nobody's guest."""
        host = self._host_of.pop(guest, None)
        if host is not None:
            self._seat(host, tuple(one for one in self.guests(host) if one is not guest))

    def disband(self, host: EtcdWatch) -> tuple[EtcdWatch, ...]:
        """The host has no guests any more; who they were."""
        guests = self.guests(host)
        self._seat(host, ())
        for guest in guests:
            del self._host_of[guest]
        return guests

    def guests(self, host: EtcdWatch) -> tuple[EtcdWatch, ...]:
        """Of one host, in the order of their ranges."""
        seated = self._guests.get(host)
        return seated.all if seated is not None else ()

    def clear(self) -> None:
        """Nobody is anybody's guest."""
        self._host_of.clear()
        self._guests.clear()

    def feed(self, host: EtcdWatch, found: Sequence[Event]) -> None:
        """Offer what the host has taken to its guests, and let them follow it to its cursor."""
        seated = self._guests.get(host)
        if seated is None:
            return
        for guest, events in seated.shares(found).items():
            guest.offer(events)
        for guest in self.guests(host):
            guest.follow(host.next_revision)

    def progress(self, host: EtcdWatch, revision: int) -> None:
        """Tell the guests that nothing more comes of revisions up to this one."""
        for guest in self.guests(host):
            guest.progress(revision)

    def _seat(self, host: EtcdWatch, guests: Sequence[EtcdWatch]) -> None:
        if guests:
            self._guests[host] = _Guests(guests)
        else:
            self._guests.pop(host, None)


class _Guests:
    """Guests of one host, by the keys of their ranges, which may overlap."""

    def __init__(self, guests: Sequence[EtcdWatch]) -> None:
        self.all = tuple(sorted(guests, key=lambda guest: guest.start))
        self._starts = [guest.start for guest in self.all]
        self._furthest = list(accumulate((guest.stop for guest in self.all), max))

    def shares(self, found: Sequence[Event]) -> dict[EtcdWatch, list[Event]]:
        """The events of each guest, in order; guests without any are left out."""
        shares: dict[EtcdWatch, list[Event]] = defaultdict(list)
        for event in found:
            for guest in self._about(event.kv.key):
                shares[guest].append(event)
        return shares

    def _about(self, key: str) -> Iterator[EtcdWatch]:
        """Guests whose range holds the key."""
        at = bisect_right(self._starts, key) - 1
        while at >= 0 and self._furthest[at] > key:
            if self.all[at].stop > key:
                yield self.all[at]
            at -= 1
