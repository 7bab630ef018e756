"""The newest answers of questions that cost more than a page may take, while what they were made of stands still."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class Remembered:
    """Answers by what was asked, up to a total size; the longest unasked go first. Safe to share between threads.

    What was asked names the state of what the answer was made of, so that nothing has to be taken back. Several who
    ask the same at once wait for one of them.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._answers: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, asked: Hashable, make: Callable[[], Answer], size: Callable[[Answer], int]) -> Answer:
        """The answer, made where it is not known. One larger than the whole room is given and not kept."""
        with self._lock:
            if (known := self._known(asked)) is not None:
                return known[0]
            making = self._making.setdefault(asked, threading.Lock())
        try:
            with making:
                with self._lock:
                    if (known := self._known(asked)) is not None:
                        return known[0]
                answer = make()
                with self._lock:
                    self._keep(asked, answer, size(answer))
                return answer
        finally:
            with self._lock:
                self._making.pop(asked, None)

    def _known(self, asked: Hashable) -> tuple[Any, int] | None:
        if asked in self._answers:
            self._answers.move_to_end(asked)
        return self._answers.get(asked)

    def _keep(self, asked: Hashable, answer: object, size: int) -> None:
        if size > self._room:
            return
        self._answers[asked] = answer, size
        while sum(each for _, each in self._answers.values()) > self._room:
            self._answers.popitem(last=False)
