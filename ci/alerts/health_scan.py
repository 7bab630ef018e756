"""Health scan: opens, updates and resolves alerts about the data itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from warpwatch.dashboard.model.alert import LIVE, AlertKind, HealthAlert, HealthFinding
from warpwatch.dashboard.model.machine import Machine
from warpwatch.dashboard.model.overview import OverviewEntry
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import ChangeKind
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.alert_opening import open_health_alert
from warpwatch.dashboard.store.alert_updates import update_health_alert
from warpwatch.dashboard.store.outbox import notified_destinations
from warpwatch.dashboard.store.queries.alerts import health_alerts

from .alert_content import Action, health_content, thread_of
from .checks.failed_kernels import failed_checks, without_number
from .checks.missing_data import silent_machines, stopped_benchmarks
from .checks.runner_health import RunnerFacts, machine_trust, unhealthy_runner
from .scan import Scan


def scan_health(scan: Scan) -> None:
    """Opens, updates and resolves health alerts; each kind and subject has one unresolved alert at most."""
    store, name = scan.store, scan.project.name
    findings = health_findings(scan)
    new = {(each.kind, each.subject): each for each in findings.found}
    known = health_alerts(store, name)
    notified = notified_destinations(store, [alert.thread for alert in known])
    for alert in known:
        finding = new.pop((alert.kind, alert.finding.subject), None)
        if finding is None or set(finding.members) - set(alert.finding.members):
            owners = findings.owners(scan, finding or alert.finding)
            _update(scan, alert, finding, owners, notified.get(alert.thread, frozenset()))
    for place, finding in new.items():
        if place not in findings.history:
            _open(scan, finding, findings.owners(scan, finding))


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFindings:
    found: tuple[HealthFinding, ...]
    history: frozenset[tuple[AlertKind, str]]  # kinds and subjects that are older than `recent_days`: no news
    series: Mapping[str, Series]  # by key, all that the machines have

    def owners(self, scan: Scan, finding: HealthFinding) -> Sequence[str]:
        """Owners of the finding's series, else of its kernel; none of a whole machine."""
        if finding.kernel is None:
            return ()
        series = [self.series[key] for key in finding.members if key in self.series]
        return scan.owners_of(series) if series else scan.owners.of(finding.kernel)


def health_findings(scan: Scan) -> HealthFindings:
    """Findings on the machines that are not retired."""
    store, name, policy = scan.store, scan.project.name, scan.policy
    newest = scan.project.newest_commit
    if newest is None:
        return HealthFindings(found=(), history=frozenset(), series={})
    since = newest - timedelta(days=policy.recent_days)
    machines = [
        each for each in queries.machines(store, name) if not any(fnmatchcase(each.name, g) for g in policy.retired)
    ]
    names = {each.name for each in machines}
    standings = [each for each in queries.standings(store, name) if each.row.series.machine in names]
    recent = [each for each in standings if each.row.commit.date >= since]
    arrivals = queries.arrivals(store, name)
    silent = silent_machines(machines, arrivals, scan.main, policy, scan.now)
    long_ago = (scan.now - timedelta(days=policy.recent_days)).timestamp()
    of_benchmarks = _of_benchmarks(standings)
    fresh = {(each.kind, each.subject) for each in _of_benchmarks(recent)}
    return HealthFindings(
        found=(*silent, *of_benchmarks, *_unhealthy(scan, machines, recent, since)),
        history=frozenset(
            [(each.kind, each.subject) for each in silent if arrivals[each.machine].newest_s < long_ago]
            + [place for each in of_benchmarks if (place := (each.kind, each.subject)) not in fresh]
        ),
        series={each.row.series.key: each.row.series for each in standings},
    )


def _of_benchmarks(standings: Sequence[OverviewEntry]) -> list[HealthFinding]:
    return [*stopped_benchmarks(standings), *failed_checks(standings), *without_number(standings)]


def _unhealthy(
    scan: Scan,
    machines: Sequence[Machine],
    standings: Sequence[OverviewEntry],
    since: datetime,
) -> Iterator[HealthFinding]:
    store, name = scan.store, scan.project.name
    moved = [
        each
        for each in queries.regressions(store, name, kind=ChangeKind.MACHINE_STATE, limit=1_000_000)
        if each.commit.date >= since
    ]
    levels = queries.series_changes(store, {one.series.key for each in moved for one in each.regressions})
    for machine in machines:
        facts = RunnerFacts(
            machine=machine.name,
            standings=[each for each in standings if each.row.series.machine == machine.name],
            conditions=queries.conditions(store, name, machine.name),
            trust=machine_trust(store, name, machine.name, scan.threshold),
            moved=[each for each in moved if each.machine == machine.name],
        )
        finding = unhealthy_runner(facts, levels, scan.policy)
        if finding is not None:
            yield finding


def _open(scan: Scan, finding: HealthFinding, owners: Sequence[str]) -> None:
    name = scan.project.name
    thread = thread_of(name, finding.kind.value, finding.subject, scan.now_ms)
    content = health_content(name, finding, action=Action.OPENED, owners=owners, dashboard_url=scan.policy.dashboard)
    kernels = (finding.kernel,) if finding.kernel is not None else ()

    def write(messages: Mapping[str, str]) -> bool:
        opened = open_health_alert(scan.store, name, finding, thread=thread, messages=messages, now_ms=scan.now_ms)
        return opened is not None

    to = scan.destinations(finding.kind.value, finding.machine, kernels, owners)
    scan.report_new(content, thread=thread, to=to, write=write)


def _update(
    scan: Scan, alert: HealthAlert, finding: HealthFinding | None, owners: Sequence[str], notified: frozenset[str]
) -> None:
    """An alert that is expected, or a false alarm, is updated without a message."""
    action, content = Action.RESOLVED if finding is None else Action.UPDATED, None
    if alert.state in LIVE:
        content = health_content(
            alert.project,
            finding or alert.finding,
            action=action,
            owners=owners,
            dashboard_url=scan.policy.dashboard,
        )
    scan.report_update(
        alert,
        content,
        action,
        to=sorted(notified),
        write=lambda messages: update_health_alert(scan.store, alert, finding, messages=messages, now_ms=scan.now_ms),
    )
