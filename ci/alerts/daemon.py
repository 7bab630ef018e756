"""`warpwatch alert --watch`: analysis, alerts, digest and outbox, again and again, until somebody ends it.

What fails is said and tried again; only a signal ends it, after the delivery that it is at.
"""

import logging
import signal
import sys
import threading
import time
from types import FrameType

from sqlalchemy.exc import SQLAlchemyError

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.model.error_location import located

from .alert_round import Round, round_words, unrouted_words
from .digest_messages import queue_digest_if_due
from .outbox_sender import Sent

_log = logging.getLogger(__name__)
_BETWEEN_DELIVERIES_S = 5.0


def run_daemon(its: Round, *, seconds: float) -> None:
    """Looks every so many seconds, and delivers what is due in between. Returns after SIGTERM or SIGINT."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    for noisy in ("apprise", "httpx", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    _log.info("watching %s every %g s", its.project, seconds)
    next_scan = time.monotonic()
    unnamed: list[str] = []
    while not ended.is_set():
        is_time = time.monotonic() >= next_scan
        try:
            _round(its, ended, scan=is_time)
            if is_time:
                unnamed = _say_new(its.unnamed_words(), unnamed)
        except SQLAlchemyError as error:
            _log.error("the database is away, and is tried again: %s", str(error.args[0]).strip().splitlines()[0])
        except Exception as error:  # a fault of ours must not end the watch
            _log.exception("a round failed and is tried again (%s). Please report this", located(error))
        if is_time:
            next_scan = time.monotonic() + seconds
        ended.wait(max(min(_BETWEEN_DELIVERIES_S, next_scan - time.monotonic()), 0.05))
    its.store.close()
    _log.info("ended")


def _round(its: Round, ended: threading.Event, *, scan: bool) -> None:
    if scan:
        analyse(its.store, only=its.project)
        found = its.scan()
        queue_digest_if_due(its)
        for line in unrouted_words(found.unrouted):
            _log.warning(line)
        sent = its.send(only_due=True, is_stopped=ended.is_set)
        if found.messages or sent.sent or sent.failed:
            _log.info(round_words(found, sent))
    else:
        sent = its.send(only_due=True, is_stopped=ended.is_set)
    _say(sent)


def _say_new(lines: list[str], before: list[str]) -> list[str]:
    """Says those that were not said the last time."""
    for line in lines:
        if line not in before:
            _log.warning(line)
    return lines


def _say(sent: Sent) -> None:
    for line in sent.said:
        _log.warning(line)
