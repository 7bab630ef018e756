"""The tables, one module a concept. Times are milliseconds since 1970 (UTC), the same in every database.

`migrate` creates the tables. Points are append-only: a re-run adds points. They are stored in `chunk`, many in a row,
because one row a point would take three times the space and time; points.py alone writes and reads them.
"""

from .findings import (
    acceptance,
    alert,
    alert_event,
    alert_series,
    annotation,
    changepoint,
    episode,
    outbox,
    stated_change,
    stated_limits,
    summary,
    token,
)
from .results import (
    MORE_OF_CODE,
    benchmark,
    chunk,
    commit,
    compiled_code,
    detail,
    environment,
    generation,
    machine,
    metadata,
    profile,
    project,
    recorded,
    run,
    sample_chunk,
    series,
    set_aside,
    source_file,
    workload,
)
