"""The history as a pandas DataFrame, for notebooks: `from warpwatch import dashboard; dashboard.history(...)`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...settings import Settings
from ...store import Store, queries

if TYPE_CHECKING:
    import pandas as pd


def history(
    project: str | None = None,
    *,
    benchmark: str = "",
    metric: str | None = None,
    machine: str | None = None,
    since: datetime | str | None = None,
    database: str | None = None,
) -> "pd.DataFrame":
    """Every measurement of a project, one row each, by benchmark, commit and run.

    Filters: `benchmark` is a part of the name (case-insensitive), `since` a date (ISO 8601; default zone UTC).
    `project` is optional if the store has only one. `database` is a URL or a path; default: WARPWATCH_DATABASE, else
    .warpwatch/warpwatch.db below the current folder.

    Columns are those of `warpwatch export` (`cli/exports/measurement_rows.py`): `value`, `q25` and `q75` are floats as
    recorded, in the row's `unit`, NaN where `status` is not "ok"; `adjusted_value` is NaN where one GPU measured;
    `date` and `run_time` are UTC; `position` counts a project's commits in order; `sample_count` may be missing; the
    rest are categories. `parameters` is a JSON object. The index is a plain range.

    Raises LookupError if there is no such project, ImportError without pandas and pyarrow, and what Store raises.
    """
    try:
        import pandas as pd
        import pyarrow as pa

        from .arrow import SCHEMA, arrow_tables
    except ModuleNotFoundError as error:
        raise ImportError(f"a history as a DataFrame requires {error.name}: pip install 'warpwatch[export]'") from error
    store = Store(database or Settings.from_env().database)
    try:
        name = _project(store, project)
        measurements = queries.measurements(
            store, name, benchmark=benchmark, metric=metric, machine=machine, since=_moment(since)
        )
        tables = list(arrow_tables(measurements)) or [SCHEMA.empty_table()]
    finally:
        store.close()
    counts = {pa.int32(): pd.Int32Dtype()}
    return pa.concat_tables(tables).unify_dictionaries().to_pandas(types_mapper=counts.get)


def _project(store: Store, name: str | None) -> str:
    names = [project.name for project in queries.projects(store)]
    if name is None and len(names) == 1:
        return names[0]
    if name is None or name not in names:
        problem = "no project given" if name is None else f"no project {name!r}"
        raise LookupError(f"{problem}; projects in {store.url}: {', '.join(names) or 'none'}")
    return name


def _moment(since: datetime | str | None) -> datetime | None:
    moment = datetime.fromisoformat(since) if isinstance(since, str) else since
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
