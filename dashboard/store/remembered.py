"""What was worked out from the store and holds until somebody writes into it. Bounded, and safe between threads."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

Found = TypeVar("Found")
_MOST = 256


class Remembered:
    """Values by key, all of one state of the store; another state forgets them, and so does age where there are many.

    Threads that want the same value wait for the one that works it out.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._state: Hashable = None
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(self, state: Hashable, key: Hashable, make: Callable[[], Found]) -> Found:
        """The value of `key` in a state that was read before this call; `make` may see a newer one."""
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
                entry.is_made = True
            return entry.value


class _Entry:
    __slots__ = ("is_made", "lock", "value")

    def __init__(self) -> None:
        self.lock = Lock()
        self.is_made = False
        self.value: Any = None
