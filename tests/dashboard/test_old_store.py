"""Stores that the code of each earlier schema wrote, opened with today's: nothing lost, nothing doubled.

Written by the last commit of each schema: 71549b2^, e3ab965^, 243d2a1^, 91f609e^, 6c42a87^, bfaf809^, a6fbe55,
7c5f7e7 and 26fd1e9.
All hold the same results; from the second on one alert, from the fourth on a token and a note.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import JSON, Boolean, MetaData, create_engine, insert, make_url, select, text

from tests.asv_results import AsvResults, hash_of
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.alert_records import EventKind
from warpwatch.dashboard.store.alerts import alerts, new_regressions
from warpwatch.dashboard.store.annotations import annotations
from warpwatch.dashboard.store.migrate import alembic_config
from warpwatch.dashboard.store.outbox import undelivered
from warpwatch.dashboard.store.tokens import tokens
from warpwatch.dashboard.trials.store_state import State, state_of

RECORDED = Path(__file__).with_name("recorded")
SCHEMAS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009")
COMMITS = 12


@pytest.fixture
def same(asv: AsvResults) -> AsvResults:
    """The results that the recorded stores were imported from: samples, none, failed, absent, not finite, counts."""
    sizes = ["16", "256", "4096", "65536"]
    asv.benchmark("suite.Time.time_it", size=sizes)
    asv.benchmark("suite.Count.track_it", unit="bytes")
    for number in range(COMMITS):
        level = 1e-3 if number < COMMITS // 2 else 1.3e-3
        values: list[Any] = [level * (n + 1) * (1 + number % 3 / 1000) for n in range(len(sizes))]
        samples = [[value * (1 + k / 1000) for k in range(5)] for value in values]
        started = number * 1000 + 1
        rows = {
            "suite.Time.time_it": asv.row(values, [sizes], started_at=started, spread=0.004, samples=samples),
            "suite.Odd.time_it": asv.row([None, float("nan"), float("inf"), 1e-5], [sizes], started_at=started + 1),
            "suite.Count.track_it": asv.row([4096 + number // 4], started_at=started + 2),
        }
        asv.commit(number, rows)
    return asv


@pytest.fixture(params=SCHEMAS)
def schema(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(schema: str, database: str, tmp_path: Path) -> Iterator[Store]:
    """The recorded store, brought to today's schema. PostgreSQL has its rows from the recorded file."""
    path = tmp_path / "history.db"  # where the database is, if it is of SQLite
    path.write_bytes(gzip.decompress((RECORDED / f"store-{schema}.db.gz").read_bytes()))
    if not database.startswith("sqlite"):
        _copy(path, database, schema)
    store = Store(database)
    yield store
    store.close()


def _copy(source: Path, database: str, schema: str) -> None:
    """The rows of an SQLite file into a database that is brought to the schema they are of."""
    old, new = (
        create_engine(url) for url in (f"sqlite:///{source}", make_url(database).set(drivername="postgresql+psycopg"))
    )
    with old.connect() as reading, new.begin() as writing:
        config = alembic_config()
        config.attributes["connection"] = writing
        command.upgrade(config, schema)
        tables, sources = MetaData(), MetaData()
        tables.reflect(writing)
        sources.reflect(reading)
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            rows = [dict(row) for row in reading.execute(select(sources.tables[table.name])).mappings()]
            for row in rows:
                for column in table.c:
                    row[column.name] = _as(column.type, row[column.name])
            if rows:
                writing.execute(insert(table), rows)
            if "id" in table.c:
                writing.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), MAX(id)) "
                                     f'FROM "{table.name}" HAVING MAX(id) IS NOT NULL'))  # fmt: skip
    old.dispose()
    new.dispose()


def _as(kind: Any, value: Any) -> Any:
    if isinstance(kind, Boolean):
        return bool(value)
    return json.loads(value) if isinstance(kind, JSON) and isinstance(value, str) else value


def _but_for_names(state: State) -> dict[str, Any]:
    """Names of runs and marks are digests, of which the old code had others."""
    kept: dict[str, Any] = {kind: rows for kind, rows in state.items() if kind not in {"runs", "marks"}}
    kept["runs"] = sorted(started for _, started, _ in state["runs"])
    for kind in ("points", "samples"):
        kept[kind] = sorted((row[0], row[1], *row[3:]) for row in state[kind])
    return kept


def test_an_old_store_is_what_an_import_makes_today(old: Store, same: AsvResults, tmp_path: Path) -> None:
    fresh = Store(str(tmp_path / "fresh.db"))
    same.load(fresh)
    before = _but_for_names(state_of(old))
    summary = same.load(old)
    assert (summary.points, summary.unchanged) == (0, COMMITS)
    state, expected = _but_for_names(state_of(old)), _but_for_names(state_of(fresh))
    fresh.close()
    assert state == expected
    assert {kind: before[kind] for kind in ("points", "samples", "commits", "files")} == {
        kind: expected[kind] for kind in ("points", "samples", "commits", "files")
    }
    assert len(state["points"]) == COMMITS * 9
    assert len(state["changes"]) > 0


def test_a_file_saved_again_adds_to_an_old_store_only_what_is_new(old: Store, same: AsvResults) -> None:
    path = next((same.folder / "box").glob("00000005*.json"))
    data = json.loads(path.read_text())
    data["results"]["suite.New.time_it"] = same.row([1.5], started_at=9)
    path.write_text(json.dumps(data))
    assert same.load(old).points == 1


def test_what_people_were_told_and_said_stays(old: Store, schema: str, same: AsvResults) -> None:
    same.load(old)
    told = alerts(old, "demo")
    assert len(told) == (schema > "0001")
    assert [alert.commit.hash for alert in told] == [hash_of(COMMITS // 2)] * len(told)
    assert [(alert.version, alert.assignee, alert.link, alert.stated) for alert in told] == [
        (1, None, None, None)
    ] * len(told)
    kinds = [[event.kind for event in alert.events] for alert in told]
    assert kinds == [[EventKind.STATE]] * len(told)
    assert len(new_regressions(old, "demo")) == (schema == "0001")
    waiting = undelivered(old, "demo")
    assert [(each.destination, each.payload, each.attempts) for each in waiting] == [("http://hook", "{}", 0)] * len(
        told
    )
    assert [token.name for token in tokens(old)] == ["runner"] * (schema > "0003")
    notes = [(note.commit, note.text) for note in annotations(old, "demo", commit=hash_of(3))]
    assert notes == [(hash_of(3), "new driver")] * (schema > "0003")
