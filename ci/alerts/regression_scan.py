"""Regression scan: opens, updates and resolves alerts from the current changepoints."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from warpwatch.dashboard.model.alert import RegressionAlert
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup
from warpwatch.dashboard.model.compiled_code import CodeChange
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.quantities import quantity
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_opening import open_regression_alert
from warpwatch.dashboard.store.alert_updates import update_regression_alert
from warpwatch.dashboard.store.outbox import notified_destinations
from warpwatch.dashboard.store.queries.alerts import alert_snapshot
from warpwatch.dashboard.store.queries.compiled_code import CodeBetween

from .alert_content import Action, regression_content, resolved_content, thread_of
from .grouping import group, is_reportable, range_of
from .lifecycle import LifecycleStep, accepts_series, alert_range, follow, notification_of
from .scan import Scan

_KERNELS, _FACTS = 3, 6  # of compiled code, in a message


def scan_regressions(scan: Scan) -> None:
    """Steps for the worse: new ones open alerts or join them; known alerts are updated or resolved."""
    _RegressionScan(scan).run()


class _RegressionScan:
    def __init__(self, scan: Scan) -> None:
        self._scan, self._store, self._name = scan, scan.store, scan.project.name

        @cache
        def commit_of(name: str) -> Commit | None:
            return queries.find_commit(self._store, self._name, name)

        self._commit_of = commit_of

    def run(self) -> None:
        policy = self._scan.policy
        now = alert_snapshot(
            self._store,
            self._name,
            recent_days=policy.recent_days,
            max_false_discovery_rate=policy.max_false_discovery_rate,
        )
        new = [one for one in now.new if is_reportable(one, policy, now.changes.get(one.series.key, ()))]
        joining = self._joining(new, now.alerts)
        joined = {id(one) for some in joining.values() for one in some}
        notified = notified_destinations(self._store, [alert.thread for alert in now.alerts])
        for alert in now.alerts:
            more = joining.get(alert.id, ())
            step = follow(alert, now.held.get(alert.id, ()), more, now.changes, policy, self._commit_of)
            self._update(alert, step, more, notified.get(alert.thread, frozenset()))
        groups = group(self._name, (one for one in new if id(one) not in joined))
        for found, code in zip(groups, _compiled_code_lines(self._store, self._name, groups), strict=True):
            self._open(found, code)

    def _joining(self, new: Iterable[Regression], known: Sequence[RegressionAlert]) -> dict[int, list[Regression]]:
        """New regressions in the commit range of an alert of their machine, by the id of the newest such alert."""
        found: dict[int, list[Regression]] = {}
        ranges = [(alert, alert_range(alert, self._commit_of)) for alert in known if accepts_series(alert)]
        for one in new:
            own = range_of(one)
            for alert, reported in ranges:
                if alert.machine == one.series.machine and reported.overlap(own) is not None:
                    found.setdefault(alert.id, []).append(one)
                    break
        return found

    def _update(
        self, alert: RegressionAlert, step: LifecycleStep, joining: Sequence[Regression], notified: frozenset[str]
    ) -> None:
        scan, content, to = self._scan, None, tuple(sorted(notified))
        if step.action is not None and (step.group is None or step.action is Action.RESOLVED):
            content = resolved_content(
                alert,
                why=" ".join(step.news),
                owners=scan.owners_of(one.series for one in alert.series),
                dashboard_url=scan.policy.dashboard,
            )
        elif step.action is not None and step.group is not None:
            (code,) = _compiled_code_lines(self._store, self._name, [step.group])
            content = regression_content(
                step.group,
                action=step.action,
                news=step.news,
                owners=self._owners_of(step.group.regressions),
                code=code,
                dashboard_url=scan.policy.dashboard,
            )
            if joining:
                to = tuple(dict.fromkeys((*to, *self._destinations(alert.machine, joining))))
        scan.report_update(
            alert,
            content,
            step.action or Action.UPDATED,
            to=to,
            write=lambda messages: update_regression_alert(
                self._store, alert, step.update, messages=messages, now_ms=scan.now_ms
            ),
        )

    def _open(self, found: RegressionGroup, code: Sequence[str]) -> None:
        scan = self._scan
        facts = [found.project, found.machine, found.commit.hash, *sorted(one.series.key for one in found.regressions)]
        thread = thread_of(*facts, scan.now_ms)
        content = regression_content(
            found,
            owners=self._owners_of(found.regressions),
            code=code,
            dashboard_url=scan.policy.dashboard,
        )

        def write(messages: Mapping[str, str]) -> bool:
            notified = notification_of(found.regressions)
            opened = open_regression_alert(
                self._store, found, messages=messages, now_ms=scan.now_ms, thread=thread, notified=notified
            )
            return opened is not None

        scan.report_new(content, thread=thread, to=self._destinations(found.machine, found.regressions), write=write)

    def _destinations(self, machine: str, regressions: Sequence[Regression]) -> tuple[str, ...]:
        workloads = self._scan.workloads
        kernels = {
            kernel_of(one.series, workloads.get((one.series.suite, one.series.workload or ""))) for one in regressions
        }
        return self._scan.destinations("regression", machine, kernels, self._owners_of(regressions))

    def _owners_of(self, regressions: Sequence[Regression]) -> tuple[str, ...]:
        """The largest regression's first."""
        return self._scan.owners_of(one.series for one in regressions)


def _compiled_code_lines(store: Store, project: str, groups: Sequence[RegressionGroup]) -> list[tuple[str, ...]]:
    """Differences of the compiled code at both ends of each group; empty if it is not recorded at both."""
    return [_code_lines(between) for between in queries.code_between(store, project, groups)] if groups else []


def _code_lines(code: CodeBetween) -> tuple[str, ...]:
    if code.differences:
        shown = tuple(_code_difference(each) for each in code.differences[:_KERNELS])
        more = len(code.differences) - _KERNELS
        return (*shown, f"and {more} more kernels of {code.compared}") if more > 0 else shown
    if code.compared:
        return (f"the same at both commits, in all {code.compared} kernels of its operators",)
    if code.ran_the_same and not code.ran_another:
        return ("the same machine code ran at both commits",)
    return ()


def _code_difference(each: CodeChange) -> str:
    facts = ", ".join(
        f"{one.name} {quantity(one.before, one.unit)} → {quantity(one.after, one.unit)}"
        for one in (*each.facts, *each.instructions)[:_FACTS]
    )
    return f"{each.kernel} ({each.architecture}): {each.word or facts}"
