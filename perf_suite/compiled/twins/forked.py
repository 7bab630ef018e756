"""Calls that each have a process of their own, as many at a time as there are cores. No torch here."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

T = TypeVar("T")


class NoAnswerError(Exception):
    """A call raised something, or its process ended before it did; the message says what."""


def each_forked(calls: Sequence[Callable[[], T]]) -> Iterator[tuple[int, T | NoAnswerError]]:
    """The calls' indices and what they return, as it comes; it is pickled on the way.

    A process is a fork of this one and finds what this one has loaded.
    """
    fork = multiprocessing.get_context("fork")
    waiting = list(enumerate(calls))
    running: dict[Any, tuple[int, BaseProcess]] = {}
    while waiting or running:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            index, call = waiting.pop(0)
            reader, writer = fork.Pipe(duplex=False)
            process: BaseProcess = fork.Process(target=_answer, args=(call, writer))
            process.start()
            writer.close()
            running[reader] = index, process
        for ready in wait(list(running)):
            index, process = running.pop(ready)
            try:
                yield index, cast(Connection, ready).recv()
            except EOFError:
                process.join()
                yield index, NoAnswerError(f"the process died with exit status {process.exitcode}")
            process.join()


def _answer(call: Callable[[], T], writer: Connection) -> None:
    result: T | NoAnswerError
    try:
        result = call()
    except Exception as error:
        result = NoAnswerError(repr(error))  # not the error itself: not every one survives being pickled
    writer.send(result)
