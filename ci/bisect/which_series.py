"""Which series is meant: by its key on the dashboard, or by its benchmark's name."""

import re

from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.records import Series

_KEY = re.compile(r"[0-9a-f]{16}")
_SHOWN = 12
_ALL = 100_000


class SeriesError(Exception):
    """No series, or several; the message lists them."""


class NoSeriesError(SeriesError):
    """None is called like that."""


def is_key(text: str) -> bool:
    """Whether it has the form of one."""
    return bool(_KEY.fullmatch(text))


def which_series(
    store: Store, project: str, text: str, *, machine: str | None = None, metric: str | None = None
) -> Series:  # fmt: skip
    """The one series of ours with that key, or whose "benchmark(parameters)" the regular expression finds.

    Judged metrics alone, unless a metric is named. Raises SeriesError.
    """
    found = [
        series
        for series in queries.find_series(store, project, machine=machine, metric=metric, limit=_ALL).series
        if series.is_asvs and (series.key == text or (not is_key(text) and _matches(series, text, metric)))
    ]
    if len(found) == 1:
        return found[0]
    where = f" on {machine}" if machine else ""
    if not found:
        raise NoSeriesError(
            f"{project} has no series {text!r}{where} that asv measured; the dashboard finds them by words"
        )
    listed = [f"  {each.key}  {each.title}, {each.metric.name}, {each.machine}" for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        listed.append(f"  and {len(found) - _SHOWN} more")
    raise SeriesError(f"{len(found)} series are {text!r}{where}; name one by its key:\n" + "\n".join(listed))


def _matches(series: Series, text: str, metric: str | None) -> bool:
    watched = series.listed and series.is_watched and (metric is not None or series.metric.is_judged)
    return watched and re.search(text, series.title) is not None
