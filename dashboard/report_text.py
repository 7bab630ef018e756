"""The report as text for a terminal and as JSON for programs."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from warpwatch.dashboard.quantities import latency, quantity, ratio, share
from warpwatch.dashboard.store.records import ReportRow, Status
from warpwatch.dashboard.text_table import text_table

_HEADER = ("workload", "implementation", "latency", "bandwidth", "throughput", "SOL", "against")
_ALIGN = "llrrrrl"
_WIDTH = 100


def report_table(rows: Sequence[ReportRow]) -> str:
    """A table for each machine and operator, 100 columns at most. SOL is the share of the speed of light."""
    blocks = []
    for (machine, commit, _), of_machine in itertools.groupby(
        rows, key=lambda r: (r.machine, r.commit.hash, r.commit.date)
    ):
        mine = list(of_machine)
        subject = f" “{mine[0].commit.subject}”" if mine[0].commit.subject else ""
        blocks.append(f"{machine} at {commit[:8]}{subject}, {mine[0].commit.date:%Y-%m-%d}")
        for operator, group in itertools.groupby(mine, key=lambda row: row.operator):
            blocks.append(f"{operator}\n{_table([_cells(row) for row in group])}")
    return "\n\n".join(blocks)


def report_json(rows: Sequence[ReportRow]) -> str:
    """One object a row, SI units, in the order of the table."""
    return json.dumps({"schema": 1, "rows": [_row_json(row) for row in rows]}, indent=2, ensure_ascii=False)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """The rows under the header, without columns that have nothing in any row."""
    used = [column for column in range(len(_HEADER)) if any(row[column] not in {"", "–"} for row in rows)]
    return text_table(
        [_HEADER[column] for column in used],
        [[row[column] for column in used] for row in rows],
        align="".join(_ALIGN[column] for column in used),
        width=_WIDTH,
        shrink=0,
    )


def _cells(row: ReportRow) -> tuple[str, ...]:
    if row.latency_s is None:
        word = "not available" if row.status is Status.UNAVAILABLE else row.status.value
        return row.workload, row.implementation, word, "", "", "", (row.reason or "")[:30]
    against = ", ".join(f"{ratio(other.ratio)} {other.implementation}" for other in row.ratios)
    return (
        row.workload,
        row.implementation,
        latency(row.latency_s),
        quantity(row.bandwidth_bps, "B/s"),
        quantity(row.flop_rate, "FLOP/s"),
        share(row.speed_of_light),
        against,
    )


def _row_json(row: ReportRow) -> dict[str, Any]:
    return {
        "project": row.project,
        "machine": row.machine,
        "environment": row.environment,
        "commit": row.commit.hash,
        "commit_date": row.commit.date.isoformat(),
        "operator": row.operator,
        "benchmark": row.benchmark,
        "workload": row.workload,
        "implementation": row.implementation,
        "is_baseline": row.is_baseline,
        "backend": row.backend,
        "status": row.status.value,
        "reason": row.reason,
        "latency_s": row.latency_s,
        "q25_s": row.q25_s,
        "q75_s": row.q75_s,
        "sample_count": row.sample_count,
        "bandwidth_bps": row.bandwidth_bps,
        "flop_rate": row.flop_rate,
        "speed_of_light": row.speed_of_light,
        "ratio_to": {other.implementation: other.ratio for other in row.ratios},
        "run": row.run,
        "run_time": row.run_time.isoformat() if row.run_time else None,
    }
