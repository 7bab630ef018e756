"""One scan of a project: what it reads, and how every kind of alert is reported."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from warpwatch.dashboard.model.alert import Alert
from warpwatch.dashboard.model.series import Project, Series, Workloads
from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.store import Store, queries

from ..policy.policy_model import AlertsTable
from .destinations import RoutingFacts, destinations
from .message import Action, Content, Message, compose
from .owners import MainBranch, Owners


@dataclass(slots=True)
class ScanResult:
    """Messages that a scan queued, or would have queued in a dry run."""

    counted: Counter[str] = field(default_factory=Counter)  # by Action
    messages: list[Message] = field(default_factory=list)
    unrouted: list[str] = field(default_factory=list)  # titles of new alerts that no route matches

    def add(self, message: Message) -> None:
        """Adds a message."""
        self.counted[message.action] += 1
        self.messages.append(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan under way."""

    store: Store
    project: Project
    policy: AlertsTable
    given: tuple[str, ...]  # addresses of the command line
    main: MainBranch
    owners: Owners
    workloads: Workloads
    now: datetime
    dry_run: bool
    result: ScanResult = field(default_factory=ScanResult)

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, as in the store."""
        return int(self.now.timestamp() * 1000)

    def owners_of(self, series: Iterable[Series]) -> tuple[str, ...]:
        """Owners of the series, those of the first one first."""
        return self.owners.owners_of_series(series, self.workloads)

    def destinations(self, kind: str, machine: str, kernels: Iterable[str], owners: Sequence[str]) -> tuple[str, ...]:
        """Names of the destinations that routes select."""
        matter = RoutingFacts(kind=kind, machine=machine, kernels=tuple(kernels), owners=owners)
        return destinations(matter, self.policy, self.given)

    def report_new(
        self, content: Content, *, thread: str, to: Sequence[str], write: Callable[[Mapping[str, str]], bool]
    ) -> None:
        """Queues the first message of an alert.

        `write` opens the alert with the messages (destination -> payload); False if another process was first.
        """
        message = compose(content, thread=thread, number=1, action=Action.OPENED)
        if not self.dry_run and not write(dict.fromkeys(to, message.as_json())):
            return
        self.result.add(message)
        if not to:
            self.result.unrouted.append(message.title)

    def report_update(
        self,
        alert: Alert,
        content: Content | None,
        action: Action,
        *,
        to: Sequence[str],
        write: Callable[[Mapping[str, str]], bool],
    ) -> None:
        """Queues the next message of an alert; without content the update is written, and nothing is sent.

        `write` updates the alert with the messages (destination -> payload); False if somebody changed it meanwhile:
        then the next scan updates it.
        """
        message = None
        if content is not None:
            message = compose(content, thread=alert.thread, number=alert.messages + 1, action=action)
        if not self.dry_run and not write(dict.fromkeys(to, message.as_json()) if message is not None else {}):
            return
        if message is not None:
            self.result.add(message)


def new_scan(
    store: Store,
    project: Project,
    policy: AlertsTable,
    given: Sequence[str],
    *,
    rules: Sequence[LimitRule] = (),
    now: datetime | None = None,
    dry_run: bool = False,
) -> Scan:
    """A scan of the project as it is now; `rules` state the owners of series."""
    main = MainBranch(project.repository)
    return Scan(
        store=store,
        project=project,
        policy=policy,
        given=tuple(given),
        main=main,
        owners=Owners(policy, main, rules),
        workloads=queries.project_workloads(store, project.name),
        now=now or datetime.now(UTC),
        dry_run=dry_run,
    )
