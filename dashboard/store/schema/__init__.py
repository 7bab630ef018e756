"""The tables, one module a concept. Times are milliseconds since 1970 (UTC), the same in every database.

`migrate` creates the tables. Points are append-only: a re-run adds points. They are stored in `chunk`, many in a row,
because one row a point would take three times the space and time; points.py alone writes and reads them.
"""

from .alerts import alert, alert_event, alert_series, outbox, stated_change
from .base import metadata
from .decisions import acceptance, annotation, stated_limits, token
from .findings import changepoint, episode, summary
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
