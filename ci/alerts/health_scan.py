"""One look at the data itself: what is wrong with it opens alerts of its own kinds, and what is no more closes them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from warpwatch.dashboard.model.machine import Machine
from warpwatch.dashboard.model.overview import Standing
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import ChangeKind
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.health_alerts import (
    HealthAlert,
    HealthFinding,
    HealthKind,
    go_on_with_health,
    health_alerts,
    open_health_alert,
    open_subjects,
)
from warpwatch.dashboard.store.outbox import told_destinations

from .checks.failed_kernels import failed_checks, without_number
from .checks.missing_data import silent_machines, stopped_benchmarks
from .checks.runner_health import RunnerFacts, TrustMemory, unhealthy_runner
from .destinations import Matter, destinations
from .lifecycle import Action
from .message import thread_of
from .message_text import compose_health
from .regression_scan import Look, Watch


def look_at_health(store: Store, its: Watch, look: Look, memory: TrustMemory) -> None:
    """Opens, updates and resolves; each kind and subject has one open alert at most."""
    name = its.project.name
    findings = health_findings(store, its, memory)
    found = {(each.kind, each.subject): each for each in findings.found}
    known = open_subjects(health_alerts(store, name))
    told = told_destinations(store, [alert.thread for alert in known.values()])
    workloads = queries.project_workloads(store, name)

    def answering(finding: HealthFinding) -> Sequence[str]:
        """For the series that it is about; of one that is of a whole machine, nobody."""
        if finding.kernel is None:
            return ()
        series = [findings.series[key] for key in finding.members if key in findings.series]
        return its.owners.answering(series, workloads) if series else its.owners.of(finding.kernel)

    for place, alert in known.items():
        finding = found.pop(place, None)
        if finding is None or set(finding.members) - set(alert.finding.members):
            owners = answering(finding or alert.finding)
            _go_on(store, its, look, alert, finding, told.get(alert.thread, frozenset()), owners)
    for place, finding in found.items():
        if place not in findings.history:
            _open(store, its, look, finding, answering(finding))


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFindings:
    """Everything that is wrong now."""

    found: tuple[HealthFinding, ...]
    history: frozenset[tuple[HealthKind, str]]  # kinds and subjects that were so long before anybody looked: no news
    series: Mapping[str, Series]  # by key, all that the machines have


def health_findings(store: Store, its: Watch, memory: TrustMemory) -> HealthFindings:
    """What is wrong with the machines that are not retired. What is older than `recent_days` is history."""
    name, policy = its.project.name, its.policy
    newest = its.project.newest_commit
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
    silent = silent_machines(machines, arrivals, its.main, policy, its.now)
    long_ago = (its.now - timedelta(days=policy.recent_days)).timestamp()
    of_benchmarks = _of_benchmarks(standings)
    fresh = {(each.kind, each.subject) for each in _of_benchmarks(recent)}
    return HealthFindings(
        found=(*silent, *of_benchmarks, *_unhealthy(store, its, memory, machines, recent, since)),
        history=frozenset(
            [(each.kind, each.subject) for each in silent if arrivals[each.machine].newest_s < long_ago]
            + [place for each in of_benchmarks if (place := (each.kind, each.subject)) not in fresh]
        ),
        series={each.row.series.key: each.row.series for each in standings},
    )


def _of_benchmarks(standings: Sequence[Standing]) -> list[HealthFinding]:
    return [*stopped_benchmarks(standings), *failed_checks(standings), *without_number(standings)]


def _unhealthy(
    store: Store,
    its: Watch,
    memory: TrustMemory,
    machines: Sequence[Machine],
    standings: Sequence[Standing],
    since: datetime,
) -> Iterator[HealthFinding]:
    name = its.project.name
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
            trust=memory.of(store, name, machine),
            moved=[each for each in moved if each.machine == machine.name],
        )
        finding = unhealthy_runner(facts, levels, its.policy)
        if finding is not None:
            yield finding


def _open(store: Store, its: Watch, look: Look, finding: HealthFinding, owners: Sequence[str]) -> None:
    name = its.project.name
    thread = thread_of(name, finding.kind.value, finding.subject, its.now_ms)
    message = compose_health(
        name,
        finding,
        thread=thread,
        number=1,
        action=Action.OPENED,
        owners=owners,
        dashboard_url=its.policy.dashboard,
    )
    matter = Matter(
        kind=finding.kind.value,
        machine=finding.machine,
        owners=owners,
        kernels=(finding.kernel,) if finding.kernel is not None else (),
    )
    to = destinations(matter, its.policy, its.given)
    if not its.dry_run:
        payloads = dict.fromkeys(to, message.as_json())
        if not open_health_alert(store, name, finding, thread=thread, messages=payloads, now_ms=its.now_ms):
            return
    look.note(message, to)


def _go_on(
    store: Store,
    its: Watch,
    look: Look,
    alert: HealthAlert,
    finding: HealthFinding | None,
    told: frozenset[str],
    owners: Sequence[str],
) -> None:
    message = compose_health(
        alert.project,
        finding or alert.finding,
        thread=alert.thread,
        number=alert.messages + 1,
        action=Action.RESOLVED if finding is None else Action.UPDATED,
        owners=owners,
        dashboard_url=its.policy.dashboard,
    )
    if not its.dry_run:
        payloads = dict.fromkeys(sorted(told), message.as_json())
        if not go_on_with_health(store, alert, finding, messages=payloads if alert.is_told else {}, now_ms=its.now_ms):
            return
    if alert.is_told:
        look.note(message, sorted(told) or ("nobody was told of it",))
