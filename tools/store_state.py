"""State of a store by names instead of ids, equal for two stores of the same results."""

from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import Store, schema
from warpwatch.dashboard.store.points import read_points, read_samples

State = dict[str, list[tuple[Any, ...]]]


def state_of(store: Store) -> State:
    """Rows by kind, sorted, to compare two stores."""
    with store.read() as connection:
        commits = _names(connection, schema.commit, "hash")
        runs = _names(connection, schema.run, "name")
        series = _names(connection, schema.series, "key")
        found = {
            "commits": _rows(connection, schema.commit, "hash", "date_ms", "position", "subject"),
            "runs": _rows(connection, schema.run, "name", "started_ms", "gpu"),
            "series": _rows(connection, schema.series, "key", "metric", "unit", "listed", "stale"),
            "files": _rows(connection, schema.source_file, "path", "digest"),
            "points": _points(connection, series, commits, runs),
            "samples": _samples(connection, series, commits, runs),
            "marks": [
                (commits[row.commit_id], bytes(row.marks)) for row in connection.execute(select(schema.recorded))
            ],
            "changes": [
                (
                    series[row.series_id],
                    commits[row.commit_id],
                    row.place,
                    row.magnitude,
                    row.low,
                    row.high,
                    row.kind,
                    row.control,
                    row.control_share,
                    row.q_value,
                )
                for row in connection.execute(select(schema.changepoint))
            ],
            "episodes": [
                (series[row.series_id], commits[row.commit_id], commits[row.last_commit_id], row.kind, row.magnitude)
                for row in connection.execute(select(schema.episode))
            ],
            "summaries": [
                (
                    series[row.series_id],
                    commits[row.commit_id],
                    row.status,
                    row.value,
                    row.runs,
                    row.change,
                    row.verdict,
                )
                for row in connection.execute(select(schema.summary))
            ],
        }
    return {kind: sorted(rows, key=repr) for kind, rows in found.items()}


def _names(connection: Connection, table: Any, name: str) -> dict[int, str]:
    return {row[0]: row[1] for row in connection.execute(select(table.c.id, table.c[name]))}


def _rows(connection: Connection, table: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(select(*(table.c[name] for name in names)))]


def _points(
    connection: Connection, series: dict[int, str], commits: dict[int, str], runs: dict[int, str]
) -> list[tuple[Any, ...]]:
    found = []
    for number, points in read_points(connection, list(series)).items():
        numbers = zip(
            *(
                column.tolist()
                for column in (
                    points.commit,
                    points.run,
                    points.status,
                    points.count,
                    points.reason,
                    points.value,
                    points.q25,
                    points.q75,
                )
            ),
            strict=True,
        )
        for commit, run, status, count, reason, *values in numbers:
            said = points.reasons[reason - 1] if reason else None
            found.append((series[number], commits[commit], runs[run], status, count, said, *map(repr, values)))
    return found


def _samples(
    connection: Connection, series: dict[int, str], commits: dict[int, str], runs: dict[int, str]
) -> list[tuple[Any, ...]]:
    found = []
    for number, kept in read_samples(connection, list(series)).items():
        place = 0
        for commit, run, count in zip(kept.commit.tolist(), kept.run.tolist(), kept.count.tolist(), strict=True):
            taken = kept.samples[place : place + count].tolist()
            found.append((series[number], commits[commit], runs[run], *map(repr, taken)))
            place += count
    return found
