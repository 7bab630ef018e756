"""One round: scan the project, then deliver the outbox."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.settings import DEFAULT_THRESHOLD
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.outbox import unconfigured_destinations

from ..policy.policy_model import AlertsTable
from .health_scan import scan_health
from .outbox_sender import DeliveryReport, Destinations, deliver_outbox
from .regression_scan import scan_regressions
from .scan import ScanResult, new_scan

_COUNTED = ("updated", "reopened", "resolved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round scans, and where it sends messages."""

    store: Store
    project: str
    policy: AlertsTable
    places: Destinations
    threshold: float = DEFAULT_THRESHOLD  # of changes, in projects that state none
    rules: tuple[LimitRule, ...] = ()  # of the policy: owners of series

    def scan(self, *, dry_run: bool = False) -> ScanResult:
        """Opens, updates and resolves alerts, and puts their messages into the outbox."""
        project = queries.project(self.store, self.project)
        if project is None:
            return ScanResult()
        scan = new_scan(
            self.store,
            project,
            self.policy,
            self.places.given,
            rules=self.rules,
            threshold=self.threshold,
            dry_run=dry_run,
        )
        scan_regressions(scan)
        scan_health(scan)
        return scan.result

    def send(self, *, only_due: bool, is_stopped: Callable[[], bool] = lambda: False) -> DeliveryReport:
        """Delivers the outbox."""
        return deliver_outbox(
            self.store,
            self.places,
            give_up_days=self.policy.give_up_days,
            only_due=only_due,
            now_ms=now_ms,
            is_stopped=is_stopped,
            project=self.project,
        )

    def unnamed_lines(self) -> list[str]:
        """A line for each destination that has queued messages and is no longer named."""
        waiting = unconfigured_destinations(self.store, self.project, self.places.names)
        return [
            f'{count} messages wait for "{name}", which neither --to nor warpwatch.toml names any more'
            for name, count in waiting.items()
        ]


def round_line(scanned: ScanResult, sent: DeliveryReport) -> str:
    parts = [f"{scanned.counted['opened']} new"]
    parts += [f"{scanned.counted[name]} {name}" for name in _COUNTED if scanned.counted[name]]
    parts += [f"{sent.sent} sent", f"{sent.failed} not delivered"]
    return ", ".join(parts + ([f"{sent.given_up} given up"] if sent.given_up else []))


def unrouted_lines(titles: Sequence[str]) -> list[str]:
    """A line for each alert without a destination."""
    return [f'"{title}" has no destination: no route matches, and [alerts] has no "to"' for title in titles]


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
