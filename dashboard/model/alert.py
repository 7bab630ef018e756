"""Alerts, from a regression to an unhealthy runner, with state and events; triage items of the regressions page."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from .changepoint import Regression
from .metric import Metric
from .series import Commit, Series

SAME_PLACE = 5  # measured commits that a changepoint may move as data comes in, and still be the same regression


class AlertKind(StrEnum):
    """What an alert reports. A regression belongs to a commit; the other kinds, health alerts, do not."""

    REGRESSION = "regression"
    MISSING_DATA = "missing data"
    UNHEALTHY_RUNNER = "unhealthy runner"
    FAILED_CHECK = "failed check"  # wrong results, which the correctness gate refused
    NO_NUMBER = "no number"  # exceptions, crashes, time limits


HEALTH_KINDS = tuple(kind for kind in AlertKind if kind is not AlertKind.REGRESSION)


class AlertState(StrEnum):
    """Triage state of an alert."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


LIVE = (AlertState.OPEN, AlertState.ACKNOWLEDGED)  # states whose updates are sent


class EventKind(StrEnum):
    """What happened to an alert."""

    STATE = "state"
    ASSIGNED = "assigned"  # detail: the assignee; None: removed
    LINKED = "linked"  # detail: the address; None: removed
    NOTED = "noted"
    MOVED = "moved"  # detail: hash of the commit that a person or a bisect states
    UPDATED = "updated"  # by a program: series or members joined, the range or the magnitude changed; see the note


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """An entry of an alert's history."""

    at: datetime
    state: AlertState  # after the event
    author: str | None  # None: a program
    note: str | None
    kind: EventKind = EventKind.STATE
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """The fields that alerts of every kind have."""

    id: int
    project: str
    kind: AlertKind
    machine: str
    state: AlertState
    opened: datetime
    events: tuple[AlertEvent, ...]  # oldest first
    thread: str  # common to all messages of the alert
    messages: int  # sent so far
    assignee: str | None = None
    link: str | None = None
    version: int = 1  # counts updates and decisions

    @property
    def decided_by(self) -> str | None:
        """Author of the current state; None: a program."""
        return next((event.author for event in reversed(self.events) if event.kind is EventKind.STATE), None)

    @property
    def resolved(self) -> datetime | None:
        """When the alert was resolved; None unless it is."""
        if self.state is not AlertState.RESOLVED:
            return None
        return next((event.at for event in reversed(self.events) if event.kind is EventKind.STATE), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastNotification:
    """What the newest message of a regression alert reported. Commits are hashes."""

    start: str  # the change came after this commit
    end: str  # and by this one
    worst: tuple[float, float, float]  # largest change without the machine's part: magnitude, low, high
    first_range: tuple[str, str]  # start and end of the first message

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{**stored, "worst": tuple(stored["worst"]), "first_range": tuple(stored["first_range"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertedSeries:
    """One series of a regression alert, with its change as of the newest message."""

    series: Series
    magnitude: float
    ci_low: float
    ci_high: float
    commit: str  # hash of the first commit of the new level
    place: int  # index of that commit among the series' measured commits
    is_resolved: bool  # the level is back, or the detector no longer finds the change
    is_settled: bool  # all values are analysed, and the machine's findings are classified


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedChange:
    """The commit that a person or a bisect states as the cause; the detector's commit is kept."""

    commit: Commit
    previous_commit: Commit  # the measured one before
    author: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionAlert(Alert):
    """Series of one machine that got worse at one commit."""

    commit: Commit
    previous_commit: Commit
    series: tuple[AlertedSeries, ...]  # largest change first
    stated: StatedChange | None = None
    notified: LastNotification | None = None  # None: opened by triage, and no message was sent
    findings: int = 0  # the machine's analysis counter when the alert was read


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """What is wrong now with a machine's data. A finding with further `members` is reported again."""

    kind: AlertKind  # one of HEALTH_KINDS
    subject: str  # identifies the finding within its kind: a machine, or a kernel on a machine
    machine: str
    kernel: str | None  # None: the whole machine
    summary: str  # one line
    members: tuple[str, ...]  # series keys, or names of the machine's failures
    lines: tuple[str, ...]  # details, one fact each

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        lists = {"members": tuple(stored["members"]), "lines": tuple(stored["lines"])}
        return cls(**{**stored, "kind": AlertKind(stored["kind"]), **lists})


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthAlert(Alert):
    """A finding about the data itself. It resolves when the finding is gone, and cannot be resolved by hand."""

    finding: HealthFinding  # as of the newest update


class TriageState(StrEnum):
    """State of a triage item: that of its alert, or untriaged."""

    UNTRIAGED = "untriaged"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


WAITING = (TriageState.UNTRIAGED, TriageState.OPEN, TriageState.ACKNOWLEDGED)  # a person has to act


class TriageOrder(StrEnum):
    NEWEST = "newest"
    WORST = "worst"  # by the sum of the severities of their series


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVersion:
    """A triage item as a person saw it when deciding; `version` changes with the item."""

    key: str  # "alert-12"; without an alert "new-4f…-3", from the commit's hash and the machine's id
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSeverity:
    """Mean severity of an item's series of one metric."""

    metric: Metric
    mean: float  # of `statistics.summary.severity`, in nats
    series: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageItem:
    """Series of one machine that regressed at one commit, and the decisions on them."""

    seen: ItemVersion
    machine: str
    commit: Commit  # of the alert, else of the detector
    previous_commit: Commit
    state: TriageState
    regressions: tuple[Regression, ...]  # as detected now: times first, the largest first
    gone: tuple[AlertedSeries, ...]  # in the alert, no longer detected
    matching: int  # series that pass the filter; `regressions` may be fewer
    total: int
    severity: MeanSeverity | None  # of its first metric: latency, other times, the rest; None: no significant change
    alert: RegressionAlert | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageFilter:
    """Which triage items to list, and in which order; None: no restriction."""

    states: tuple[TriageState, ...] = tuple(TriageState)
    machine: str | None = None
    words: str = ""  # all must occur in the name of one of the item's series
    since: datetime | None = None  # the commit's date
    order: TriageOrder = TriageOrder.NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageList:
    """One page of the triage items that pass a filter."""

    items: tuple[TriageItem, ...]
    total: int
    counts: Mapping[TriageState, int]  # of every state, whichever the filter has
    any_at_all: bool  # without any filter
    below_limits: int  # steps for the worse below the project's thresholds, which are in no item
