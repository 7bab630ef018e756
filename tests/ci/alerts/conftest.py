"""A history that moves, an inbox that listens, and rounds of `warpwatch alert` between them, on both databases."""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.asv_results import START_MS, AsvResults
from tests.dashboard.conftest import asv, sqlite_store, store  # noqa: F401
from tests.http_inbox import Inbox, listening
from warpwatch.ci.alerts.health_scan import scan_health
from warpwatch.ci.alerts.outbox_sender import DeliveryReport, Destinations, deliver_outbox
from warpwatch.ci.alerts.regression_scan import scan_regressions
from warpwatch.ci.alerts.scan import ScanResult, new_scan
from warpwatch.ci.policy.policy_model import AlertsTable
from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.store import Store, queries

NAME = "suite.Bench.track_latency"


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with listening() as server:
        yield server


@dataclass
class Scene:
    """One project: results that come in, looks at them, and where the messages go."""

    store: Store
    asv: AsvResults
    to: tuple[str, ...]
    policy: AlertsTable = field(default_factory=AlertsTable)
    environment: dict[str, str] = field(default_factory=dict)
    rules: tuple[LimitRule, ...] = ()
    runs: int = 0

    def measure(
        self, values: list[float], *, first: int = 0, name: str = NAME, machine: str = "box", load: bool = True
    ) -> None:
        """One value a commit, from the first-th on; measured again, a commit has a run more."""
        self.asv.benchmark(name)
        for number, value in enumerate(values, start=first):
            self.runs += 1
            value *= 1 + self.runs * 1e-7  # equal values of another run may be asv's own copies
            row = self.asv.row([value], started_at=START_MS + self.runs * 60_000, spread=0.002)
            self.asv.commit(number, {name: row}, machine=machine, environment=f"env-{name}")
        if load:
            self.asv.load(self.store)

    def look(self, *, now: datetime | None = None, health: bool = False) -> ScanResult:
        """Scans, and sends."""
        project = queries.project(self.store, "demo")
        assert project is not None
        scan = new_scan(self.store, project, self.policy, self.to, rules=self.rules, now=now)
        scan_regressions(scan)
        if health:
            scan_health(scan)
        self.send()
        return scan.result

    def send(self) -> DeliveryReport:
        """Delivers all that waits."""
        places = Destinations(self.policy, self.to, self.environment)
        return deliver_outbox(
            self.store, places, give_up_days=7, only_due=False, now_ms=lambda: int(datetime.now(UTC).timestamp() * 1000)
        )


@pytest.fixture
def scene(store: Store, asv: AsvResults, inbox: Inbox) -> Scene:  # noqa: F811
    return Scene(store=store, asv=asv, to=(inbox.url,))


@pytest.fixture
def free_port() -> int:
    """Not one of those that connections get: they would hold it while the server that is to have it is away."""
    while True:
        number = random.randrange(20_000, 30_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", number))
            return number


@pytest.fixture
def after() -> Callable[..., datetime]:
    """So long after the newest commit, of which there is one an hour."""

    def moment(commit: int, **later: Any) -> datetime:
        return datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(hours=commit) + timedelta(**later)

    return moment
