"""Regression scan: opens, updates and resolves alerts from the current changepoints."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache

from warpwatch.dashboard.model.alert import Alert
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup
from warpwatch.dashboard.model.compiled_code import CodeChange, Fact
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.quantities import quantity
from warpwatch.dashboard.model.series import Commit, Project
from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.model.triage_item import Card, Seen, Standing
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_updates import go_on
from warpwatch.dashboard.store.alerts import alerts_now, open_alert
from warpwatch.dashboard.store.outbox import told_destinations
from warpwatch.dashboard.store.queries.compiled_code import CodeBetween

from ..policy.policy_model import AlertsTable
from .destinations import Matter, destinations
from .grouping import counts, group, range_of
from .lifecycle import Action, Step, alert_range, follow, takes_in, told_of
from .message import Message, thread_of
from .message_text import compose, compose_end
from .owners import MainBranch, Owners

# What changed in the compiled code between the last good and the first bad commit of regressions, in a few lines.

_KERNELS, _FACTS = 3, 6


def compiled_code_lines(store: Store, project: str, groups: Sequence[RegressionGroup]) -> list[tuple[str, ...]]:
    """Of each group, in order; empty where the code is not recorded at both commits."""
    if not groups:
        return []
    cards = [
        Card(
            seen=Seen(key=str(number), version=""),
            machine=group.machine,
            commit=group.commit,
            previous_commit=group.previous_commit,
            standing=Standing.UNTRIAGED,
            regressions=group.regressions,
            gone=(),
            matching=len(group.regressions),
            total=len(group.regressions),
            loss=0.0,
            alert=None,
        )
        for number, group in enumerate(groups)
    ]
    between = queries.code_between(store, project, cards)
    return [_lines(between[card.seen.key]) if card.seen.key in between else () for card in cards]


def _lines(code: CodeBetween) -> tuple[str, ...]:
    if code.differences:
        shown = tuple(_difference(each) for each in code.differences[:_KERNELS])
        more = len(code.differences) - _KERNELS
        return (*shown, f"and {more} more kernels of {code.compared}") if more > 0 else shown
    if code.compared:
        return (f"the same at both commits, in all {code.compared} kernels of its operators",)
    if code.ran_the_same and not code.ran_another:
        return ("the same machine code ran at both commits",)
    return ()


def _difference(each: CodeChange) -> str:
    facts = ", ".join(_fact(one) for one in (*each.facts, *each.instructions)[:_FACTS])
    return f"{each.kernel} ({each.architecture}): {each.word or facts}"


def _fact(one: Fact) -> str:
    return f"{one.name} {quantity(one.before, one.unit)} → {quantity(one.after, one.unit)}"


@dataclass(slots=True)
class Look:
    """What a look found, and the messages that it queued or would have."""

    counted: Counter[str] = field(default_factory=Counter)  # by Action
    messages: list[Message] = field(default_factory=list)
    unrouted: list[str] = field(default_factory=list)  # titles of what no destination is named for

    def note(self, message: Message, to: Sequence[str]) -> None:
        """One message of the look."""
        self.counted[message.action] += 1
        self.messages.append(message)
        if not to:
            self.unrouted.append(message.title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a look needs to know beside the store."""

    project: Project
    policy: AlertsTable
    given: tuple[str, ...]  # addresses of the command line
    main: MainBranch
    owners: Owners
    now: datetime
    dry_run: bool = False

    @property
    def now_ms(self) -> int:
        """As the store keeps times."""
        return int(self.now.timestamp() * 1000)


def watch(
    project: Project,
    policy: AlertsTable,
    given: Sequence[str],
    *,
    rules: Sequence[LimitRule] = (),
    now: datetime | None = None,
    dry_run: bool = False,
) -> Watch:
    """What is known of a project now; `rules` say who answers for which series."""
    main = MainBranch(project.repository)
    return Watch(
        project=project,
        policy=policy,
        given=tuple(given),
        main=main,
        owners=Owners(policy, main, rules),
        now=now or datetime.now(UTC),
        dry_run=dry_run,
    )


def look_at_regressions(store: Store, its: Watch, look: Look) -> None:
    """Steps for the worse: new ones open alerts or join them, alerts that were told go on."""
    _Regressions(store, its, look).look()


class _Regressions:
    def __init__(self, store: Store, its: Watch, look: Look) -> None:
        self._store, self._its, self._look = store, its, look
        self._name = its.project.name
        self._workloads = queries.project_workloads(store, self._name)
        self._commit: Callable[[str], Commit | None] = cache(lambda name: queries.find_commit(store, self._name, name))

    def look(self) -> None:
        policy = self._its.policy
        now = alerts_now(self._store, self._name, recent_days=policy.recent_days, most_false=policy.most_false)
        known, held, levels = now.alerts, now.held, now.changes
        new = [one for one in now.new if counts(one, policy, levels.get(one.series.key, ()))]
        joining = self._joining(new, known)
        taken = {id(one) for its in joining.values() for one in its}
        told = told_destinations(self._store, [alert.thread for alert in known])
        for alert in known:
            step = follow(alert, held.get(alert.id, ()), joining.get(alert.id, ()), levels, policy, self._commit)
            self._go_on(alert, step, joining.get(alert.id, ()), told.get(alert.thread, frozenset()))
        groups = group(self._name, (one for one in new if id(one) not in taken))
        for found, code in zip(groups, compiled_code_lines(self._store, self._name, groups), strict=True):
            self._open(found, code)

    def _joining(self, new: Iterable[Regression], known: Sequence[Alert]) -> dict[int, list[Regression]]:
        """New regressions in the range of an alert of their machine, by the alert: the newest that takes them in."""
        found: dict[int, list[Regression]] = {}
        ranges = [(alert, alert_range(alert, self._commit)) for alert in known if takes_in(alert)]
        for one in new:
            its = range_of(one)
            for alert, told in ranges:
                if alert.machine == one.series.machine and told.overlap(its) is not None:
                    found.setdefault(alert.id, []).append(one)
                    break
        return found

    def _go_on(self, alert: Alert, step: Step, joining: Sequence[Regression], told: frozenset[str]) -> None:
        its, told_now = self._its, step.progress.told
        message, to = None, tuple(sorted(told))
        if step.action is not None and told_now is not None:
            if step.group is None or step.action is Action.RESOLVED:
                message = compose_end(
                    alert, number=told_now.messages, why=" ".join(step.news), dashboard_url=its.policy.dashboard
                )
            else:
                (code,) = compiled_code_lines(self._store, self._name, [step.group])
                message = compose(
                    step.group,
                    thread=alert.thread,
                    number=told_now.messages,
                    action=step.action,
                    news=step.news,
                    owners=self._owners_of(step.group.regressions),
                    code=code,
                    dashboard_url=its.policy.dashboard,
                )
                if joining:
                    to = tuple(dict.fromkeys((*to, *self._to(alert.machine, joining))))
        if not its.dry_run:
            payloads = dict.fromkeys(to, message.as_json()) if message is not None else {}
            if not go_on(self._store, alert, step.progress, messages=payloads, now_ms=its.now_ms):
                return  # somebody changed it meanwhile: the next look sees
        if message is not None:
            self._look.note(message, to or ("nobody was told of it",))

    def _open(self, found: RegressionGroup, code: Sequence[str]) -> None:
        its = self._its
        facts = [found.project, found.machine, found.commit.hash, *sorted(one.series.key for one in found.regressions)]
        told = told_of(thread_of(*facts, its.now_ms), 1, found.regressions)
        message = compose(
            found,
            thread=told.thread,
            number=1,
            owners=self._owners_of(found.regressions),
            code=code,
            dashboard_url=its.policy.dashboard,
        )
        to = self._to(found.machine, found.regressions)
        if not its.dry_run:
            payloads = dict.fromkeys(to, message.as_json())
            if open_alert(self._store, found, messages=payloads, now_ms=its.now_ms, told=told) is None:
                return  # another process was first
        self._look.note(message, to)

    def _to(self, machine: str, its: Sequence[Regression]) -> tuple[str, ...]:
        kernels = {
            kernel_of(one.series, self._workloads.get((one.series.suite, one.series.workload or ""))) for one in its
        }
        matter = Matter(kind="regression", machine=machine, kernels=kernels, owners=self._owners_of(its))
        return destinations(matter, self._its.policy, self._its.given)

    def _owners_of(self, its: Sequence[Regression]) -> tuple[str, ...]:
        """The largest regression's first."""
        return self._its.owners.answering((one.series for one in its), self._workloads)
