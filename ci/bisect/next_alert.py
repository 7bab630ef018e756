"""The alert that a runner left to itself bisects next: the worst that waits here and spans several commits."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpwatch.ci.bisect.commit_range import RangeError, commit_range
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.bisected import bisected_alerts
from warpwatch.dashboard.store.card_records import CardFilter, CardOrder, Standing
from warpwatch.dashboard.store.records import Series

_MOST = 1000  # waiting alerts that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An alert's worst series, and between which commits its change came."""

    alert: int
    series: Series
    good: str  # full hashes
    bad: str


def next_alert(store: Store, project: str, machine: str, repository: Path) -> Waiting | None:
    """The first of them; None if no alert of the machine waits that several commits may have brought."""
    return next(_waiting(store, project, machine, repository), None)


def _waiting(store: Store, project: str, machine: str, repository: Path) -> Iterator[Waiting]:
    """Open and acknowledged alerts of asv's series, the worst first, that no bisect has told of and git knows."""
    wanted = CardFilter(
        standings=(Standing.OPEN, Standing.ACKNOWLEDGED), machine=machine, order=CardOrder.WORST
    )  # fmt: skip
    found = queries.cards(store, project, wanted, limit=_MOST, rows=1).cards
    done = bisected_alerts(store, [card.alert.id for card in found if card.alert is not None])
    for card in found:
        if card.alert is None or card.alert.id in done or card.alert.stated is not None or not card.regressions:
            continue
        worst = card.regressions[0]
        good, bad = worst.change.range_start.hash, worst.change.range_end.hash
        try:
            count = len(commit_range(repository, good, bad))
        except RangeError:
            continue
        if worst.series.is_asvs and count > 2:
            yield Waiting(alert=card.alert.id, series=worst.series, good=good, bad=bad)
