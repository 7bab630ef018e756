"""Every other task done in a copy of this process, while the next one is done here.

Of a second or less of work a pool of processes saves nothing: to load what runs it and to start its workers takes as
long. A copy starts in some milliseconds, with all that is loaded and the task itself in its memory, and answers through
a pipe.
"""

import os
import pickle
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO, NoReturn


class Beside(Executor):
    """Does each first task of two elsewhere, and the second in the caller's thread. For processes of one thread alone:
    what another thread holds locked would stay so in a copy.
    """

    def __init__(self) -> None:
        self._copies: list[_Copy] = []
        self._is_second = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The task, begun or done."""
        task = partial(fn, *args, **kwargs)
        is_second, self._is_second = self._is_second, not self._is_second
        if not is_second:
            with suppress(OSError):  # there is no room for another process: then here
                self._copies.append(_Copy(task))
                return self._copies[-1]
        done: Future[Any] = Future()
        _settle(done, *_outcome(task))
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for what is still under way."""
        for copy in self._copies:
            copy.take()


class _Copy(Future[Any]):
    """What a copy of this process comes to."""

    def __init__(self, task: Callable[[], Any]) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()  # it has begun: who cancels it waits for it all the same
        reading, writing = os.pipe()
        self._answer: BinaryIO = os.fdopen(reading, "rb")
        try:
            self._process = os.fork()
            if not self._process:
                _answer_and_end(task, writing)
        finally:
            os.close(writing)

    def result(self, timeout: float | None = None) -> Any:
        """What it found; waits for it as long as it takes."""
        self.take()
        return super().result()

    def take(self) -> None:
        """Waits for the answer, if it has not been taken yet."""
        if self._answer.closed:
            return
        with self._answer:
            answer = self._answer.read()
        if os.waitpid(self._process, 0)[1]:
            self.set_exception(BrokenExecutor("the process that did it was killed"))
        else:
            _settle(self, *pickle.loads(answer))


def _answer_and_end(task: Callable[[], Any], writing: int) -> NoReturn:
    """Leaves without a word to what this process shares with its parent: its database connections, what it buffers."""
    try:
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(_outcome(task), pipe, pickle.HIGHEST_PROTOCOL)
        os._exit(0)
    finally:
        os._exit(1)


def _outcome(task: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return task(), None
    except Exception as error:
        return None, error


def _settle(future: Future[Any], found: Any, error: Exception | None) -> None:
    if error is None:
        future.set_result(found)
    else:
        future.set_exception(error)
