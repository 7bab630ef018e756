"""What is new goes into the queue, what waits goes to the dashboard, until nothing waits."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..retries import Backoff, UnavailableError, retry
from .batch import ReadResult, find_results, groups, halves, pack, read_result, results_in, what_lists_them
from .queue import Known, Parcel, Spool
from .upload import RefusedError, Taken, TooLargeError, Upload

_BACKOFF = Backoff(first_s=1.0, longest_s=300.0, longest_asked_s=3600.0)


@dataclass(slots=True, kw_only=True)
class Sent:
    """What came of it, as the server told."""

    taken: list[Taken] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    waiting: int = 0  # parcels, at the end

    @property
    def files(self) -> int:
        """Result files that the server has now."""
        return sum(each.files for each in self.taken)

    @property
    def unchanged(self) -> int:
        """Those of them that it had before."""
        return sum(each.unchanged for each in self.taken)

    @property
    def points(self) -> int:
        """Values that were new to it."""
        return sum(each.points for each in self.taken)


def queue_new(results: Path, spool: Spool, *, again: bool = False) -> int:
    """Puts every result file in the queue that is new or changed since it was last queued; returns how many.

    With `again` all of them, and what was set aside. Raises OSError where results or queue cannot be read or written:
    what is in the queue stays.
    """
    with spool.queueing():
        if again:
            spool.queue_refused()
        before = {} if again else spool.known()
        known, count = dict(before), 0
        for together in groups(_changed(results, known)):
            machines = {str(Path(each.result.name).parent) for each in together}
            members = [member for each in together for member in each.members]
            spool.add(pack([*members, *what_lists_them(results, machines)]))
            for each in together:
                known[each.result.name] = Known(stamp=each.result.stamp, digest=each.digest)
            spool.note(known)
            count += len(together)
        if not count and known != before:
            spool.note(known)
        return count


def _changed(results: Path, known: dict[str, Known]) -> Iterator[ReadResult]:
    """What has other content than when it was known; of what was only written again the new stamp is noted."""
    for result in find_results(results):
        last = known.get(result.name)
        if last is not None and last.stamp == result.stamp:
            continue
        read = read_result(result)
        if read is None:
            continue
        if last is not None and last.digest == read.digest:
            known[result.name] = Known(stamp=result.stamp, digest=read.digest)
        else:
            yield read


def _send_one(spool: Spool, parcel: Parcel, upload: Upload, sent: Sent, say: Callable[[str], None]) -> None:
    body = parcel.body()
    try:
        taken = upload.send(body)
    except TooLargeError as error:
        parts = halves(body)
        if parts is None:
            _set_aside(spool, parcel, (f"too large for the server: {error}",), sent)
            return
        say(f"{results_in(body)} files at once are too much for the server: {error} Sending them in two halves")
        spool.replace(parcel, parts)
    except RefusedError as error:
        _set_aside(spool, parcel, error.reasons, sent)
    else:
        sent.taken.append(taken)
        if taken.set_aside:
            _set_aside(spool, parcel, taken.set_aside, sent)
        else:
            spool.remove(parcel)


def _set_aside(spool: Spool, parcel: Parcel, reasons: tuple[str, ...], sent: Sent) -> None:
    sent.set_aside += reasons
    spool.put_aside(parcel, reasons)


def push(
    results: Path,
    spool: Spool,
    upload: Upload,
    sent: Sent,
    *,
    patience_s: float,
    again: bool = False,
    say: Callable[[str], None] = lambda line: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Queues what is new and sends all that waits, for so long while the server is away. `sent` gets what came of it.

    Where another push sends from this queue already, this one waits for it. Raises SettingsError, and OSError where
    results or queue cannot be read or written.
    """
    deadline = clock() + patience_s

    def send() -> None:
        with spool.sending(waits=False) as is_ours:
            if is_ours:
                return _send_patiently(spool, upload, sent, deadline, say, sleep, clock)
        say("another push sends from this queue; waiting for it")
        with spool.sending(waits=True):
            return _send_patiently(spool, upload, sent, deadline, say, sleep, clock)

    try:
        no_room = _queue(results, spool, again, say)
        send()
        if no_room is not None:  # what was sent may have made room
            if (still := _queue(results, spool, again, say)) is not None:
                raise still
            send()
    finally:
        sent.waiting = len(spool.waiting())


def _queue(results: Path, spool: Spool, again: bool, say: Callable[[str], None]) -> OSError | None:
    """None when all that is new is in the queue, else why it cannot be."""
    try:
        count = queue_new(results, spool, again=again)
    except OSError as error:
        return error
    if count:
        say(f"{count} result file{'s' if count > 1 else ''} queued")
    return None


def _send_patiently(
    spool: Spool,
    upload: Upload,
    sent: Sent,
    deadline: float,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> None:
    """Sends the waiting batches in order. The back-off starts anew with each batch: the server took the one before."""
    while waiting := spool.waiting():
        send = partial(_send_one, spool, waiting[0], upload, sent, say)
        try:
            retry(send, _BACKOFF, total_s=deadline - clock(), say=say, sleep=sleep, clock=clock)
        except UnavailableError as error:
            return say(f"{error}; giving up for now")


def watch(
    results: Path,
    spool: Spool,
    upload: Upload,
    *,
    every_s: float,
    say: Callable[[str], None],
    tell: Callable[[Sent], None],
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Queues and sends as results come, until it is ended. A server that is away does not keep results from the queue.

    `tell` gets what a round sent. Raises SettingsError.
    """
    failures, next_try, complaint = 0, 0.0, ""
    while goes_on():
        no_room = _queue(results, spool, False, say) if results.is_dir() else None
        if no_room is not None and str(no_room) != complaint:
            say(f"cannot queue what is new: {no_room}; trying again every {every_s:.0f} s")
        complaint = str(no_room or "")
        if time.monotonic() >= next_try and spool.waiting():
            sent = Sent()
            with spool.sending(waits=False) as is_ours:
                try:
                    while is_ours and (waiting := spool.waiting()):
                        _send_one(spool, waiting[0], upload, sent, say)
                        failures = 0
                except UnavailableError as error:
                    failures += 1
                    pause = _BACKOFF.pause_s(failures, error)
                    next_try = time.monotonic() + pause
                    say(f"{error}; {len(spool.waiting())} waiting; again in {math.ceil(pause)} s")
            if sent.taken or sent.set_aside:
                tell(sent)
        time.sleep(every_s)
