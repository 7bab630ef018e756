"""Missing data: silent machines, and benchmarks that a machine no longer measures.

A machine is silent when its newest results are older than its usual interval (statistics/arrival.py) or `missing_days`
allows, or when main has `missing_commits` commits after the newest that it measured. Machines that were silent for
longer than `recent_days` when first seen are not reported.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from warpwatch.dashboard.model.alert import AlertKind, HealthFinding
from warpwatch.dashboard.model.machine import Machine
from warpwatch.dashboard.model.naming import kernel_name
from warpwatch.dashboard.model.overview import OverviewEntry, RowState
from warpwatch.dashboard.statistics.arrival import Arrival

from ...policy.policy_model import AlertsTable
from ..scan import MainBranch

_SHOWN = 10


def silent_machines(
    machines: Sequence[Machine], arrivals: Mapping[str, Arrival], main: MainBranch, policy: AlertsTable, now: datetime
) -> tuple[HealthFinding, ...]:
    """Machines without recent results."""
    found = []
    for machine in machines:
        arrival = arrivals.get(machine.name)
        if arrival is None:
            continue
        newest = datetime.fromtimestamp(arrival.newest_s, UTC)
        age, patience = now - newest, timedelta(seconds=arrival.patience_s)
        if policy.missing_days is not None:
            patience = timedelta(days=policy.missing_days)
        lacking = main.commits_since(machine.newest_commit.hash) if machine.newest_commit else None
        lacks_many = lacking is not None and lacking >= policy.missing_commits
        if age <= patience and not lacks_many:
            continue
        lines = [f"Its newest results are of {newest:%Y-%m-%d %H:%M} UTC, {_days(age)} ago."]
        if age > patience:
            lines.append(f"Results were expected within {_days(patience)}.")
        if lacks_many and machine.newest_commit is not None:
            lines.append(f"main has {lacking} commits since {machine.newest_commit.hash[:8]}, the newest it measured.")
        summary = f"no results for {_days(age)}" if age > patience else f"{lacking} commits of main without results"
        found.append(
            HealthFinding(
                kind=AlertKind.MISSING_DATA,
                subject=machine.name,
                machine=machine.name,
                kernel=None,
                summary=summary,
                members=(machine.name,),
                lines=tuple(lines),
            )
        )
    return tuple(found)


def stopped_benchmarks(standings: Sequence[OverviewEntry]) -> tuple[HealthFinding, ...]:
    """Kernels that a machine no longer measures, by machine and kernel."""
    stopped: dict[tuple[str, str], list[OverviewEntry]] = {}
    for each in standings:
        if each.state is RowState.STOPPED:
            kernel = kernel_name(each.row.series.benchmark, each.row.operator)
            stopped.setdefault((each.row.series.machine, kernel), []).append(each)
    return tuple(
        HealthFinding(
            kind=AlertKind.MISSING_DATA,
            subject=f"{machine} · {kernel}",
            machine=machine,
            kernel=kernel,
            summary=f"{kernel}: {len(rows)} benchmarks are no longer measured"
            if len(rows) > 1
            else f"{rows[0].row.series.title} is no longer measured",
            members=tuple(sorted(each.row.series.key for each in rows)),
            lines=tuple(
                f"{each.row.series.title}: last measured at {each.row.commit.hash[:8]}" for each in rows[:_SHOWN]
            )
            + ((f"and {len(rows) - _SHOWN} more",) if len(rows) > _SHOWN else ()),
        )
        for (machine, kernel), rows in sorted(stopped.items())
    )


def _days(span: timedelta) -> str:
    days = span / timedelta(days=1)
    return f"{days:.0f} days" if days >= 2 else f"{days * 24:.0f} hours"
