"""What was worked out from the store and holds until somebody writes into it. Bounded, and safe between threads."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

Found = TypeVar("Found")
_MOST = 256
_ROOM = 60_000  # about a kilobyte each, where values weigh the rows that they have


class Remembered:
    """Values by key, all of one state of the store; another state forgets them, and so does age where there are many,
    or heavy ones.

    Threads that want the same value wait for the one that works it out.
    """

    def __init__(self, most: int = _MOST, room: int = _ROOM) -> None:
        self._most = most
        self._room = room
        self._lock = Lock()
        self._state: Hashable = None
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(
        self, state: Hashable, key: Hashable, make: Callable[[], Found], weigh: Callable[[Found], int] | None = None
    ) -> Found:  # fmt: skip
        """The value of `key` in a state that was read before this call; `make` may see a newer one.

        All values together weigh no more than the room, those without `weigh` one.
        """
        with self._lock:
            if state != self._state:
                self._state = state
                self._entries.clear()
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.lock:
            if not entry.is_made:
                entry.value = make()
                entry.weight = weigh(entry.value) if weigh is not None else 1
                entry.is_made = True
                self._make_room(key, entry.weight)
            return entry.value

    def _make_room(self, key: Hashable, weight: int) -> None:
        with self._lock:
            if weight > self._room:
                self._entries.pop(key, None)  # the others shall not go for it
            while sum(entry.weight for entry in self._entries.values()) > self._room:
                self._entries.popitem(last=False)


class _Entry:
    __slots__ = ("is_made", "lock", "value", "weight")

    def __init__(self) -> None:
        self.lock = Lock()
        self.is_made = False
        self.weight = 0
        self.value: Any = None
