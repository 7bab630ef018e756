"""One round: scan the project, then deliver the outbox."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.outbox import unnamed_destinations

from ..policy.policy_model import AlertsTable
from .checks.runner_health import TrustMemory
from .destinations import Places
from .health_scan import scan_health
from .outbox_sender import Sent, empty_outbox
from .regression_scan import scan_regressions
from .scan import ScanResult, new_scan

_COUNTED = ("updated", "reopened", "resolved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round scans, and where it sends messages."""

    store: Store
    project: str
    policy: AlertsTable
    places: Places
    memory: TrustMemory
    rules: tuple[LimitRule, ...] = ()  # of the policy: who answers for which series

    def scan(self, *, dry_run: bool = False) -> ScanResult:
        """Opens, updates and resolves alerts, and puts their messages into the outbox."""
        project = queries.project(self.store, self.project)
        if project is None:
            return ScanResult()
        scan = new_scan(self.store, project, self.policy, self.places.given, rules=self.rules, dry_run=dry_run)
        scan_regressions(scan)
        scan_health(scan, self.memory)
        return scan.result

    def send(self, *, only_due: bool, is_stopped: Callable[[], bool] = lambda: False) -> Sent:
        """Delivers what waits."""
        return empty_outbox(
            self.store,
            self.places,
            give_up_days=self.policy.give_up_days,
            only_due=only_due,
            now_ms=now_ms,
            is_stopped=is_stopped,
            project=self.project,
        )

    def unnamed_words(self) -> list[str]:
        """What is said of destinations that messages wait for, and that this program does not know."""
        waiting = unnamed_destinations(self.store, self.project, self.places.names)
        return [
            f'{count} messages wait for "{name}", which neither --to nor warpwatch.toml names any more: they are sent '
            "once an address there is named again"
            for name, count in waiting.items()
        ]


def round_words(scanned: ScanResult, sent: Sent) -> str:
    """A round on one line."""
    parts = [f"{scanned.counted['opened']} new"]
    parts += [f"{scanned.counted[name]} {name}" for name in _COUNTED if scanned.counted[name]]
    parts += [f"{sent.sent} sent", f"{sent.failed} not delivered"]
    return ", ".join(parts + ([f"{sent.given_up} given up"] if sent.given_up else []))


def unrouted_words(titles: Sequence[str]) -> list[str]:
    """What is said of alerts that nobody is told of."""
    return [f'nobody is told of "{title}": no route matches, and [alerts] has no "to"' for title in titles]


def now_ms() -> int:
    """As the store keeps times."""
    return time.time_ns() // 1_000_000
