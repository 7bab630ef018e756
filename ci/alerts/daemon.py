"""`warpwatch alert --watch`: analysis, alerts, digest and outbox at an interval.

Errors are logged and the round is repeated; only a signal ends the daemon, after the current delivery.
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

from .alert_round import Round, round_line, unrouted_lines
from .digest_messages import queue_digest_if_due
from .outbox_sender import DeliveryReport

_log = logging.getLogger(__name__)
_BETWEEN_DELIVERIES_S = 5.0


def run_daemon(alert_round: Round, *, seconds: float) -> None:
    """Scans at the interval and delivers due messages in between. Returns after SIGTERM or SIGINT."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    for noisy in ("apprise", "httpx", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    _log.info("watching %s every %g s", alert_round.project, seconds)
    next_scan = time.monotonic()
    unnamed: list[str] = []
    while not ended.is_set():
        is_time = time.monotonic() >= next_scan
        try:
            _round(alert_round, ended, scan=is_time)
            if is_time:
                unnamed = _log_new(alert_round.unnamed_lines(), unnamed)
        except SQLAlchemyError as error:
            _log.error("the database is unavailable and is tried again: %s", str(error.args[0]).strip().splitlines()[0])
        except Exception as error:  # a bug must not end the daemon
            _log.exception("a round failed and is tried again (%s). Please report this", located(error))
        if is_time:
            next_scan = time.monotonic() + seconds
        ended.wait(max(min(_BETWEEN_DELIVERIES_S, next_scan - time.monotonic()), 0.05))
    alert_round.store.close()
    _log.info("ended")


def _round(alert_round: Round, ended: threading.Event, *, scan: bool) -> None:
    if scan:
        analyse(alert_round.store, only=alert_round.project)
        found = alert_round.scan()
        queue_digest_if_due(alert_round)
        for line in unrouted_lines(found.unrouted):
            _log.warning(line)
        sent = alert_round.send(only_due=True, is_stopped=ended.is_set)
        if found.messages or sent.sent or sent.failed:
            _log.info(round_line(found, sent))
    else:
        sent = alert_round.send(only_due=True, is_stopped=ended.is_set)
    _say(sent)


def _log_new(lines: list[str], before: list[str]) -> list[str]:
    """Logs the lines that are not in `before`."""
    for line in lines:
        if line not in before:
            _log.warning(line)
    return lines


def _say(sent: DeliveryReport) -> None:
    for line in sent.lines:
        _log.warning(line)
