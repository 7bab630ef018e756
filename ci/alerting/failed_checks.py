"""Kernels that give no number: a wrong result (the correctness gate), an exception, a crash, a time limit."""

from collections.abc import Sequence

from warpwatch.dashboard.kernels import kernel_name
from warpwatch.dashboard.store.health_alerts import HealthFinding, HealthKind
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.standing import Standing

_SHOWN = 10


def failed_checks(standings: Sequence[Standing]) -> tuple[HealthFinding, ...]:
    """Our kernels whose newest measurement failed, by machine and kernel. One ends when the newest is a number."""
    failed: dict[tuple[str, str], list[Standing]] = {}
    for each in standings:
        if each.row.status is Status.FAILED:
            failed.setdefault((each.row.series.machine, kernel_name(each)), []).append(each)
    return tuple(
        HealthFinding(
            kind=HealthKind.FAILED, subject=f"{machine} · {kernel}", machine=machine, kernel=kernel,
            says=_says(kernel, rows), members=tuple(sorted(each.row.series.key for each in rows)),
            lines=tuple(_line(each) for each in rows[:_SHOWN])
            + ((f"and {len(rows) - _SHOWN} more",) if len(rows) > _SHOWN else ()),
        )
        for (machine, kernel), rows in sorted(failed.items())
    )  # fmt: skip


def _says(kernel: str, rows: Sequence[Standing]) -> str:
    first = rows[0].row.reason or "no reason recorded"
    what = f"{len(rows)} benchmarks give no number" if len(rows) > 1 else "gives no number"
    return f"{kernel}: {what} ({first})"


def _line(each: Standing) -> str:
    return f"{each.row.series.title} at {each.row.commit.hash[:8]}: {each.row.reason or 'no reason recorded'}"
