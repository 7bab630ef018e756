"""Works out anew, in a thread of its own, what pages remember of a project that was written into.

Meanwhile pages may show what they remembered before (`Store.remember`), for half a minute at most.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from warpwatch.dashboard.faults import located

if TYPE_CHECKING:
    from warpwatch.dashboard.store.store import Store

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.5
_CALM_S = 1.5  # without a write: an import is many transactions, and each would be worked out for the next to undo
_PATIENCE_S = 20.0  # with one that goes on
FORMER_S = 30.0  # the longest that pages show what was before


class Preparing:
    """Watches a store, from `start` to `stop`. `prepare` asks for what pages remember of the project it is given."""

    def __init__(self, store: "Store", prepare: Callable[[str], None]) -> None:
        self._store = store
        self._prepare = prepare
        self._lock = threading.Lock()
        self._since: dict[str, float] = {}  # projects written into, and since when that is known
        self._done: dict[str, int] = {}  # how often each had been written into when it was worked out last
        self.formers = 0  # how often something of before was shown
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warpwatch-preparing", daemon=True)

    def start(self) -> None:
        """All projects are worked out once, and from then on those that are written into."""
        self._store.preparing = self
        self._thread.start()

    def stop(self) -> None:
        """Waits for what it is at."""
        self._store.preparing = None
        self._ends.set()
        self._thread.join()

    def is_at(self, project: str, found: int) -> bool:
        """Whether what was remembered of a project is about to be worked out, so that it is shown meanwhile: asked by
        who found that it holds no more, as it has been written into so often now.
        """
        if threading.current_thread() is self._thread:
            return False
        now = time.monotonic()
        with self._lock:
            if found <= self._done.get(project, -1):
                return False  # that is over, and this was none of it
            is_about_to_be = now - self._since.setdefault(project, now) < FORMER_S
            self.formers += is_about_to_be
            return is_about_to_be

    def is_done(self, project: str) -> bool:
        """Whether pages show the newest results of a project: all that was written of it has been worked out."""
        found = self._store.found_by_project().get(project, 0)
        with self._lock:
            return found <= self._done.get(project, -1)

    def _run(self) -> None:
        known: Mapping[str, int] = {}
        changed: dict[str, float] = {}  # when each was seen to have changed last
        while not self._ends.wait(_LOOK_EVERY_S):
            try:
                counts = self._store.found_by_project()
            except Exception as error:  # the database is away: pages say so themselves
                _log.warning("the store does not answer: %s", located(error))
                continue
            now = time.monotonic()
            with self._lock:
                for project in counts.keys() | known.keys():
                    if counts.get(project) != known.get(project):
                        changed[project] = now
                        self._since.setdefault(project, now)
                waiting = dict(self._since)
            known = counts
            for project, since in sorted(waiting.items(), key=lambda pair: pair[1]):
                if now - changed.get(project, 0.0) >= _CALM_S or now - since >= _PATIENCE_S:
                    self._make(project, counts.get(project, 0))

    def _make(self, project: str, found: int) -> None:
        if self._ends.is_set():
            return
        try:
            self._prepare(project)
        except Exception as error:  # whoever asks for it is told
            _log.warning("what pages remember of %s could not be worked out before: %s", project, located(error))
        with self._lock:
            self._since.pop(project, None)
            self._done[project] = found
