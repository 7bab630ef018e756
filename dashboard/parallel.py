"""Where work that takes long is done: in this process, in others of this machine, or on a Dask cluster.

Everything is written against `concurrent.futures.Executor`. What is sent is a function of a module and picklable
records, and what comes back as well.
"""

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

AHEAD = 3  # tasks for each worker that are sent before the first one's answer is taken, if nothing else is said
_CLUSTER_WORKERS = 16  # so many are kept busy where a cluster does not say how many it has


class NoClusterError(Exception):
    """The cluster cannot be reached; the message says why."""


class Here(Executor):
    """Does each task when it is submitted, in the caller's thread."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        """The task, done."""
        future: Future[object] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def local_workers(count: int | None = None) -> Iterator[tuple[Executor, int]]:
    """Processes of this machine, by default as many as it has cores for us; one means the caller's own thread."""
    count = count or _cores()
    if count == 1:
        yield Here(), 1
        return
    with _processes(count) as pool:
        yield pool, count


@contextmanager
def one_apart() -> Iterator[tuple[Executor, int]]:
    """A single other process, for what may take the one that does it down."""
    with _processes(1) as pool:
        yield pool, 1


@contextmanager
def _processes(count: int) -> Iterator["ProcessPoolExecutor"]:
    import multiprocessing  # takes longer than a small import has need of it
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork" if _may_be_copied() else "spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_end_with_parent) as pool:
        yield pool


@contextmanager
def cluster(address: str, *, patience_s: float = 10) -> Iterator[tuple[Executor, int]]:
    """A Dask cluster whose scheduler has this address, such as tcp://host:8786. Raises NoClusterError."""
    try:
        from distributed import Client
    except ImportError as error:
        raise NoClusterError("Dask is not installed: pip install 'warpwatch[dask]'") from error
    try:
        client = Client(address, timeout=patience_s)
    except (OSError, ValueError, TimeoutError) as error:
        raise NoClusterError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        workers = sum(client.nthreads().values()) or _CLUSTER_WORKERS
        yield client.get_executor(), workers


def in_order(
    workers: tuple[Executor, int], function: Callable[[_Given], _Made], items: Iterable[_Given], *, ahead: int = AHEAD
) -> Iterator[_Made]:
    """The function of each item, in the items' order; `ahead` for each worker are under way at a time."""
    executor, count = workers
    waiting: deque[Future[_Made]] = deque()
    rest = iter(items)
    try:
        while True:
            for item in itertools.islice(rest, max(count * ahead - len(waiting), 0)):
                waiting.append(executor.submit(function, item))
                if count == 1:
                    break
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _may_be_copied() -> bool:
    """A fork starts at once, but copies no threads: what one of them holds locked would stay so in the copy."""
    return hasattr(os, "fork") and threading.active_count() == 1


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_with_parent() -> None:
    """A process that is killed cannot end its workers: they would wait forever, and hold its memory and its database
    connections, which they have as copies, open.
    """
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
