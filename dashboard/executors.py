"""Executors: this thread, processes of this machine, or a Dask cluster.

Tasks are module-level functions with picklable arguments and results.
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

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

AHEAD = 3  # tasks in flight per worker
_CLUSTER_WORKERS = 16  # assumed if a cluster reports none


class NoClusterError(Exception):
    """The cluster cannot be reached."""


class InThread(Executor):
    """Run each task on submission, in the caller's thread."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        """A future that is done."""
        future: Future[object] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def local_workers(count: int | None = None) -> Iterator[tuple[Executor, int]]:
    """Processes of this machine, by default one per usable core; with count 1 the caller's thread."""
    count = count or _cores()
    if count == 1:
        yield InThread(), 1
        return
    with _processes(count) as pool:
        yield pool, count


@contextmanager
def isolated_worker() -> Iterator[tuple[Executor, int]]:
    """One other process, for a task that may crash it."""
    with _processes(1) as pool:
        yield pool, 1


@contextmanager
def _processes(count: int) -> Iterator["ProcessPoolExecutor"]:
    import multiprocessing  # slow to import
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork" if _can_fork() else "spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_end_with_parent) as pool:
        yield pool


@contextmanager
def cluster(address: str, *, timeout_s: float = 10) -> Iterator[tuple[Executor, int]]:
    """A Dask cluster by the address of its scheduler, such as tcp://host:8786. Raises NoClusterError."""
    try:
        from distributed import Client
    except ImportError as error:
        raise NoClusterError("Dask is not installed: pip install 'warpwatch[dask]'") from error
    try:
        client = Client(address, timeout=timeout_s)
    except (OSError, ValueError, TimeoutError) as error:
        raise NoClusterError(f"no Dask scheduler at {address}: {error}") from error
    with client:
        workers = sum(client.nthreads().values()) or _CLUSTER_WORKERS
        yield client.get_executor(), workers


def in_order(
    workers: tuple[Executor, int], function: Callable[[_Item], _Result], items: Iterable[_Item], *, ahead: int = AHEAD
) -> Iterator[_Result]:
    """Results of the function in the items' order, with `ahead` tasks per worker in flight."""
    executor, count = workers
    waiting: deque[Future[_Result]] = deque()
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


def _can_fork() -> bool:
    """Whether the process has one thread: a fork copies the locks of others, but not the threads."""
    return hasattr(os, "fork") and threading.active_count() == 1


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_with_parent() -> None:
    """End the worker when its parent is killed; it would otherwise wait forever and hold memory and connections."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
