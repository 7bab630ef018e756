"""Implementations that no machine ever measured, such as baselines whose library is installed nowhere."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, and_, cast, func, not_, or_, select

from ...model.series import Status
from .. import schema
from ..statements import STATUS_CODES


def is_measured_somewhere(connection: Connection, project: int | None) -> ColumnElement[bool]:
    """The condition on `schema.series` that its implementation was measured, or failed, on any machine.

    Pages, filters and search leave out the other series: their implementations are recorded as not available only.
    """
    series, summary = schema.series, schema.summary
    numbers: Any = cast(summary.c.sparkline, Text)
    for text in ("null", ",", " "):
        numbers = func.replace(numbers, text, "")
    is_absent = and_(summary.c.status == STATUS_CODES[Status.UNAVAILABLE], numbers == "[]")
    names = (
        select(series.c.implementation)
        .outerjoin(summary, summary.c.series_id == series.c.id)  # a series that is not analysed yet has none
        .where(series.c.project_id == project, or_(summary.c.series_id.is_(None), not_(is_absent)))
        .distinct()
    )
    known = [name for (name,) in connection.execute(names) if name is not None]
    return or_(series.c.implementation.is_(None), series.c.implementation.in_(known))
