"""`warpwatch changepoints`: a series a line in, its changes a line out, without a store."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from queue import Queue
from threading import Thread
from typing import Any

import click

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.statistics.changepoint import Changepoint, tell
from warpwatch.dashboard.statistics.episodes import Episode

UNREADABLE_LINES = 3  # exit status where some line was no series; the others are answered
_WAITING_PER_JOB = 8  # lines read ahead of the answer that is due, so that memory stays small


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one line of input is answered with: a line of output, and what was wrong with the input."""

    text: str
    problem: str | None


@click.command("changepoints")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 256), help="Processes to share the work.")
@click.option("--all-kinds", is_flag=True, help="Also what no commit is accused of: spikes, stays, drift.")
def changepoints_command(jobs: int, all_kinds: bool) -> None:
    """Read one series a line from stdin, write its changes as one line to stdout.

    A series is a JSON list of numbers in commit order; null or NaN is a commit without one. Its answer is a JSON list
    of objects: index (place in the input, from 0, of the first number of the new level), magnitude (0.04 is 4 % more)
    with its 95 % interval low to high, and more. All are of the kind "step". With --all-kinds there are also a
    "transient" that returned, a stay in the rarer of two states of the machine ("machine state") and the largest way
    of a slow "drift", each from first to last, in the order of the index.

    Line k of the output always answers line k of the input: [] where nothing changed and for an empty line, null where
    the line is no series. That is told on stderr, and the exit status is then 3.
    """
    # A reader of our own: the interpreter closes sys.stdin as it ends, and dies if a thread still waits in it.
    lines = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    answer = partial(_answer, all_kinds=all_kinds)
    answers = map(answer, lines) if jobs == 1 else _shared(lines, jobs, answer)
    unreadable = False
    for number, each in enumerate(answers, start=1):
        if each.problem is not None:
            unreadable = True
            click.echo(f"line {number}: {each.problem}", err=True)
        click.echo(each.text)  # which flushes
    if unreadable:
        sys.exit(UNREADABLE_LINES)


def _answer(line: bytes, *, all_kinds: bool) -> _Answer:
    """The changes of the series in one line of input."""
    if not line.strip():
        return _Answer(text="[]", problem=None)
    try:
        series = _series(line)
    except ValueError as error:
        return _Answer(text="null", problem=str(error))
    places = [place for place, value in enumerate(series) if value is not None]
    told = tell([value for value in series if value is not None], with_episodes=all_kinds)
    found = [_change(change, places) for change in told.changes]
    if all_kinds:
        found = sorted(found + [_episode(each, places) for each in told.episodes], key=lambda each: each["index"])
    return _Answer(text=json.dumps(found), problem=None)


def _series(line: bytes) -> list[float | None]:
    """Raises ValueError with what was seen and what was wanted."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}); wanted a list of numbers such as [1.5, null, 1.6]") from error
    if not isinstance(data, list):
        raise ValueError(f"a JSON {_kind(data)}; wanted a list of numbers such as [1.5, null, 1.6]")
    return [_number(value, place) for place, value in enumerate(data)]


def _number(value: Any, place: int) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ValueError(f"a {_kind(value)} at place {place}; wanted a number, or null where there is none")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"a number beyond 1.8e308 at place {place}; wanted a finite one, or null where there is none")
    return None if math.isnan(number) else number


_KINDS = {dict: "object", str: "string", bool: "truth value", list: "list", type(None): "null"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "number")


def _change(change: Changepoint, places: list[int]) -> dict[str, Any]:
    """The record as JSON, its places those of the input, where values may be missing."""
    return {**_plain(asdict(change.among(places))), "kind": ChangeKind.STEP.value}


def _episode(episode: Episode, places: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = _plain(asdict(episode.among(places)))
    return {"index": found["first"], **found}


def _plain(value: Any) -> Any:
    """Of a record what JSON knows; what is not finite is null."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shared(lines: Iterable[bytes], jobs: int, answer: Callable[[bytes], _Answer]) -> Iterator[_Answer]:
    """The answers in the order of the lines, each as soon as it and those before it are there.

    A thread reads, so that an answer never waits for the next line of input.
    """
    with ProcessPoolExecutor(jobs) as pool:
        waiting: Queue[Future[_Answer] | None] = Queue(maxsize=_WAITING_PER_JOB * jobs)
        pool.submit(int).result()  # the processes start here, before there is a second thread to be copied
        Thread(target=_read, args=(lines, pool, waiting, answer), daemon=True).start()
        while (due := waiting.get()) is not None:
            yield due.result()


def _read(
    lines: Iterable[bytes], pool: ProcessPoolExecutor, waiting: "Queue[Future[_Answer] | None]",
    answer: Callable[[bytes], _Answer],
) -> None:  # fmt: skip
    try:
        for line in lines:
            waiting.put(pool.submit(answer, line))
    except RuntimeError:
        pass  # who reads our answers has gone, and the pool is closed
    finally:
        waiting.put(None)
