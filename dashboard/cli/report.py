"""`warpwatch report`: the latencies of the newest commit, as a table or as JSON."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from ..analysis.release_report import release_report
from ..model.history import no_number
from ..model.overview import ReportRow
from ..model.quantities import latency, quantity, ratio, share
from ..model.series import Project, Status
from ..store import Store, queries
from ..text.comparison_report import release_markdown
from ..text.tables import text_table
from .output import database_option, project_option, write
from .store_access import CannotTellError, choose_project, open_store, read_settings, recorded_commit

# The report as text for a terminal and as JSON for programs.

_HEADER = ("", "latency", "bandwidth", "throughput", "SOL", "as fast as")
_ALIGN = "lrrrrl"
_WIDTH = 100


def report_table(rows: Sequence[ReportRow]) -> str:
    """A table for each machine and kernel, 100 columns at most. SOL is the share of the speed of light,
    of the datasheet's peak or, where there is none, of the measured ceiling.

    Implementations that are available nowhere are left out. Workloads that the machine cannot run at all are counted,
    not listed.
    """
    measured = {row.implementation for row in rows if row.status is not Status.UNAVAILABLE}
    rows = [row for row in rows if row.implementation in measured or not measured]
    blocks = []
    for (machine, commit, _), of_machine in itertools.groupby(
        rows, key=lambda row: (row.machine, row.commit.hash, row.environment)
    ):
        mine = list(of_machine)
        subject = f" “{mine[0].commit.subject}”" if mine[0].commit.subject else ""
        blocks.append(f"{machine} at {commit[:8]}{subject}, {mine[0].commit.date:%Y-%m-%d}")
        absent = 0
        for kernel, group in itertools.groupby(mine, key=lambda row: row.kernel):
            by_workload = [list(same) for _, same in itertools.groupby(group, key=lambda r: (r.benchmark, r.workload))]
            shown = [same for same in by_workload if any(row.status is not Status.UNAVAILABLE for row in same)]
            absent += len(by_workload) - len(shown)
            if shown:
                blocks.append(f"{kernel}\n{_table(shown)}")
        if absent:
            blocks.append(f"{absent} workload{'s' * (absent > 1)} not available on this machine.")
    return "\n\n".join(blocks)


def _table(workloads: Sequence[Sequence[ReportRow]]) -> str:
    """Each workload on a line, its implementations below; without columns that have nothing in any row."""
    if all(len(same) == 1 and not same[0].implementation for same in workloads):
        return _columns([(same[0].workload, *_cells(same[0])) for same in workloads])
    lines = _columns([(f" {row.implementation}", *_cells(row)) for same in workloads for row in same]).splitlines()
    body = iter(lines[1:])
    grouped = ((same[0].workload, *itertools.islice(body, len(same))) for same in workloads)
    return "\n".join([lines[0], *itertools.chain.from_iterable(grouped)])


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    used = [column for column in range(len(_HEADER)) if any(row[column] not in {"", "–"} for row in rows)]
    return text_table(
        [_HEADER[column] for column in used],
        [[row[column] for column in used] for row in rows],
        align="".join(_ALIGN[column] for column in used),
        width=_WIDTH,
        shrink=0,
    )


def report_json(rows: Sequence[ReportRow]) -> str:
    """One object a row, SI units, in the order of the table."""
    return json.dumps({"schema": 1, "rows": [_row_json(row) for row in rows]}, indent=2, ensure_ascii=False)


def _cells(row: ReportRow) -> tuple[str, ...]:
    if row.latency_s is None:
        word = "not available" if row.status is Status.UNAVAILABLE else row.status.value
        reason = row.reason if row.status is not Status.UNAVAILABLE else None
        return word, "", "", "", (reason or "")[:40]
    rivals = ", ".join(f"{ratio(other.ratio)} {other.implementation}" for other in row.ratios)
    if row.status is Status.UNCHANGED:  # then the latency is that of the commit measured last
        rivals = no_number(row.status, row.reason)
    return (
        latency(row.latency_s),
        quantity(row.bandwidth_bps, "B/s"),
        quantity(row.flop_rate, "FLOP/s"),
        share(row.speed_of_light.share if row.speed_of_light else None),
        rivals,
    )


def _row_json(row: ReportRow) -> dict[str, Any]:
    return {
        "project": row.project,
        "machine": row.machine,
        "environment": row.environment,
        "commit": row.commit.hash,
        "commit_date": row.commit.date.isoformat(),
        "kernel": row.kernel,
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
        "speed_of_light": asdict(row.speed_of_light) if row.speed_of_light else None,
        "ratio_to": {other.implementation: other.ratio for other in row.ratios},
        "run": row.run,
        "run_time": row.run_time.isoformat() if row.run_time else None,
    }


def print_changes(store: Store, project: Project, since: str, until: str | None, *, as_json: bool) -> None:
    """The release report of two commits. Exits if one is unknown."""
    base = recorded_commit(store, project, since)
    head = recorded_commit(store, project, until) if until else queries.newest_measured(store, project.name, ())
    assert head is not None  # base has results
    changes = release_report(store, project.name, base, head, threshold=read_settings().threshold)
    write(changes.model_dump_json(indent=2) if as_json else release_markdown(changes), None)


@click.command()
@project_option
@click.option("--machine", metavar="NAME", help="Only this machine.")
@click.option("--since", metavar="BASE", help="Report what changed since this tag, branch or hash, as Markdown.")
@click.option("--until", metavar="HEAD", help="With --since: up to this one; default: the newest complete commit.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@database_option
def report(
    project: str | None, machine: str | None, since: str | None, until: str | None, as_json: bool, database: str | None
) -> None:
    """Print how fast everything is at the newest commit of each machine.

    Latency, bandwidth, throughput, share of the speed of light (SOL), and speedup over each baseline. With --since,
    print the changes between two releases instead.
    """
    if until is not None and since is None:
        raise CannotTellError("--until requires --since")
    store = open_store(database)
    if since is not None:
        print_changes(store, choose_project(store, project), since, until, as_json=as_json)
        return
    if project is not None:
        choose_project(store, project)
    rows = queries.report(store, project=project, machine=machine)
    if as_json:
        write(report_json(rows), None)
    elif rows:
        write(report_table(rows), None)
    else:
        click.echo("nothing is recorded" + (f" on {machine}" if machine else "") + "; try: warpwatch import RESULTS")
