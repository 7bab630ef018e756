"""Points move from a row each into stretches of a series; marks are compressed; files have stamps."""

import array
import itertools
import json
import math
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa
from alembic import op

from warpwatch.dashboard.store.columns import Columns, SampleColumns, encode, encode_samples
from warpwatch.dashboard.store.marks import encode_marks
from warpwatch.dashboard.store.packed import number_reasons

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_LARGE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_AT_ONCE = 200  # series
_COMMITS_AT_ONCE = 20


def upgrade() -> None:
    for table in ("chunk", "sample_chunk"):
        op.create_table(
            table,
            sa.Column("id", _LARGE, nullable=False),
            sa.Column("series_id", sa.Integer(), nullable=False),
            sa.Column("points", sa.Integer(), nullable=False),
            sa.Column("first_run", sa.Integer(), nullable=False),
            sa.Column("last_run", sa.Integer(), nullable=False),
            sa.Column("data", sa.LargeBinary(), nullable=False),
            sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f(f"fk_{table}_series_id")),
            sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        )
        op.create_index(op.f(f"ix_{table}_series_id"), table, ["series_id"])
        if op.get_bind().dialect.name == "postgresql":
            op.execute(f"ALTER TABLE {table} ALTER COLUMN data SET STORAGE EXTERNAL")  # it is compressed already
    op.add_column("series", sa.Column("revision", sa.Integer(), server_default="0", nullable=False))
    op.add_column("source_file", sa.Column("stamp", sa.Text(), nullable=True))
    _move_points()
    _move_samples()
    op.drop_table("measurement")
    op.drop_table("samples")
    _move_marks()


def _move_points() -> None:
    names = ("series_id", "commit_id", "run_id", "value", "q25", "q75", "sample_count", "status", "reason")
    for series, rows in _by_series("measurement", names):
        reason, reasons = number_reasons(row.reason for row in rows)
        points = Columns(
            commit=np.array([row.commit_id for row in rows]),
            run=np.array([row.run_id for row in rows]),
            value=_floats(row.value for row in rows),
            q25=_floats(row.q25 for row in rows),
            q75=_floats(row.q75 for row in rows),
            count=np.array([-1 if row.sample_count is None else row.sample_count for row in rows]),
            status=np.array([row.status for row in rows]),
            reason=reason,
            reasons=reasons,
        )
        _add("chunk", series, points.run, encode(points))


def _move_samples() -> None:
    for series, rows in _by_series("samples", ("series_id", "commit_id", "run_id", "data")):
        taken = [_decoded(row.data) for row in rows]
        samples = SampleColumns(
            commit=np.array([row.commit_id for row in rows]),
            run=np.array([row.run_id for row in rows]),
            count=np.array([len(each) for each in taken]),
            samples=np.array([sample for each in taken for sample in each], dtype=np.float64),
        )
        _add("sample_chunk", series, samples.run, encode_samples(samples))


def _by_series(table: str, names: tuple[str, ...]) -> Iterator[tuple[int, list[Any]]]:
    """The rows of each series in the order of their runs, read some series at a time."""
    source = sa.table(table, *(sa.column(name) for name in names))
    key = source.c.series_id
    bind = op.get_bind()
    every = bind.execute(sa.select(key).distinct().order_by(key)).scalars().all()
    for start in range(0, len(every), _AT_ONCE):
        some = every[start : start + _AT_ONCE]
        query = sa.select(source).where(key.between(some[0], some[-1])).order_by(key, source.c.run_id)
        rows = bind.execute(query).all()
        for series, group in itertools.groupby(rows, key=lambda row: row.series_id):
            yield series, list(group)


def _add(table: str, series: int, runs: Any, data: bytes) -> None:
    names = ("series_id", "points", "first_run", "last_run", "data")
    target = sa.table(table, *(sa.column(name) for name in names))
    values = (series, len(runs), int(runs.min()), int(runs.max()), data)
    op.get_bind().execute(sa.insert(target).values(**dict(zip(names, values, strict=True))))


def _floats(numbers: Any) -> Any:
    return np.array([math.nan if number is None else number for number in numbers], dtype=np.float64)


def _decoded(data: bytes) -> "array.array[float]":
    """What samples were kept as until now: little-endian doubles, deflated."""
    values = array.array("d")
    values.frombytes(zlib.decompress(data))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _move_marks() -> None:
    """The column gets another type, for which SQLite wants another table. A commit's marks may take a megabyte."""
    bind = op.get_bind()
    names = ("commit_id", "machine_id", "environment_id")
    op.rename_table("recorded", "recorded_before")
    if bind.dialect.name == "postgresql":  # where a key's name is taken, whatever its table is called now
        op.execute("ALTER TABLE recorded_before RENAME CONSTRAINT pk_recorded TO pk_recorded_before")
    new = op.create_table(
        "recorded",
        *(sa.Column(name, sa.Integer(), nullable=False) for name in names),
        sa.Column("marks", sa.LargeBinary(), nullable=False),
        *(
            sa.ForeignKeyConstraint([name], [f"{name.removesuffix('_id')}.id"], name=op.f(f"fk_recorded_{name}"))
            for name in names
        ),
        sa.PrimaryKeyConstraint(*names, name=op.f("pk_recorded")),
    )
    old = sa.table("recorded_before", *(sa.column(name) for name in (*names, "marks")))
    every = bind.execute(sa.select(old.c.commit_id).distinct().order_by(old.c.commit_id)).scalars().all()
    marks = sa.cast(old.c.marks, sa.Text).label("marks")
    for start in range(0, len(every), _COMMITS_AT_ONCE):
        some = every[start : start + _COMMITS_AT_ONCE]
        query = sa.select(*(old.c[name] for name in names), marks).where(old.c.commit_id.between(some[0], some[-1]))
        for row in bind.execute(query).all():
            keys = {name: getattr(row, name) for name in names}
            bind.execute(sa.insert(new).values(**keys, marks=encode_marks(json.loads(row.marks))))
    op.drop_table("recorded_before")
