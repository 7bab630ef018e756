"""Kernels without a valid result: wrong results, exceptions, crashes and time limits."""

from collections.abc import Sequence

from warpwatch.dashboard.model.alert import AlertKind, HealthFinding
from warpwatch.dashboard.model.naming import kernel_name
from warpwatch.dashboard.model.overview import OverviewEntry
from warpwatch.dashboard.model.series import Status

_SHOWN = 10
_STATUS_OF = {AlertKind.FAILED_CHECK: Status.WRONG, AlertKind.NO_NUMBER: Status.FAILED}


def failed_checks(standings: Sequence[OverviewEntry]) -> tuple[HealthFinding, ...]:
    """Our kernels whose newest result is wrong, by machine and kernel."""
    return _findings(AlertKind.FAILED_CHECK, standings)


def without_number(standings: Sequence[OverviewEntry]) -> tuple[HealthFinding, ...]:
    """Our kernels whose newest measurement failed otherwise, by machine and kernel."""
    return _findings(AlertKind.NO_NUMBER, standings)


def _findings(kind: AlertKind, standings: Sequence[OverviewEntry]) -> tuple[HealthFinding, ...]:
    failures: dict[tuple[str, str], list[OverviewEntry]] = {}
    for each in standings:
        if each.row.status is _STATUS_OF[kind]:
            kernel = kernel_name(each.row.series.benchmark, each.row.operator)
            failures.setdefault((each.row.series.machine, kernel), []).append(each)
    return tuple(
        HealthFinding(
            kind=kind,
            subject=f"{machine} · {kernel}",
            machine=machine,
            kernel=kernel,
            summary=_summary(kind, kernel, rows),
            members=tuple(sorted(each.row.series.key for each in rows)),
            lines=tuple(_line(each) for each in rows[:_SHOWN])
            + ((f"and {len(rows) - _SHOWN} more",) if len(rows) > _SHOWN else ()),
        )
        for (machine, kernel), rows in sorted(failures.items())
    )


def _summary(kind: AlertKind, kernel: str, rows: Sequence[OverviewEntry]) -> str:
    first = rows[0].row.reason or "no reason recorded"
    one, many = {
        AlertKind.FAILED_CHECK: ("gives a wrong result", "benchmarks give wrong results"),
        AlertKind.NO_NUMBER: ("gives no number", "benchmarks give no number"),
    }[kind]
    return f"{kernel}: {f'{len(rows)} {many}' if len(rows) > 1 else one} ({first})"


def _line(each: OverviewEntry) -> str:
    return f"{each.row.series.title} at {each.row.commit.hash[:8]}: {each.row.reason or 'no reason recorded'}"
