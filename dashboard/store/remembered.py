"""What was worked out from the store and holds until it is written into. Bounded, and safe between threads."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

Found = TypeVar("Found")
_MOST = 256
_ROOM = 200_000  # rows of 0.2 to 0.3 kB, which share the records of series and commits


def _never() -> bool:
    return False


class Remembered:
    """Values by key, each of one state of what it was worked out from; another state makes it anew, and age drops some
    where there are many, or heavy ones.

    Threads that want the same value wait for the one that works it out.
    """

    def __init__(self, most: int = _MOST, room: int = _ROOM) -> None:
        self._most = most
        self._room = room
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(
        self, state: Hashable, key: Hashable, make: Callable[[], Found], weigh: Callable[[Found], int] | None = None,
        *, may_be_former: Callable[[], bool] = _never,
    ) -> Found:  # fmt: skip
        """The value of `key` in a state that was read before this call; `make` may see a newer one.

        Where there is one of an earlier state, `may_be_former` is asked whether that will do. All values together weigh
        no more than the room, those without `weigh` one.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.state != state:
                former = None if entry is None else entry if entry.is_made else entry.former
                entry = self._entries[key] = _Entry(state, former)
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
            former = entry.former
        if former is not None and may_be_former():
            value: Found = former.value
            return value
        with entry.lock:
            if not entry.is_made:
                entry.value = make()
                entry.weight = weigh(entry.value) if weigh is not None else 1
                entry.is_made, entry.former = True, None
                self._make_room(key, entry.weight)
            value = entry.value
            return value

    def _make_room(self, key: Hashable, weight: int) -> None:
        with self._lock:
            if weight > self._room:
                self._entries.pop(key, None)  # the others shall not go for it
            while sum(entry.weight for entry in self._entries.values()) > self._room:
                self._entries.popitem(last=False)


class _Entry:
    __slots__ = ("former", "is_made", "lock", "state", "value", "weight")

    def __init__(self, state: Hashable, former: "_Entry | None") -> None:
        self.state = state
        self.former = former  # of an earlier state, until this one is made
        self.lock = Lock()
        self.is_made = False
        self.weight: int = former.weight if former is not None else 0
        self.value: Any = None
