"""A served store with a history that has everything, a hostile project, and a token for uploads to a third."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.dashboard.pages.browsing import HOSTILE, serving
from tests.dashboard.pages.conftest import recorded_history
from tests.stored import copy_database, new_regressions
from warpwatch.dashboard.model.alert import AlertKind, HealthFinding
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_opening import open_health_alert, open_regression_alert
from warpwatch.dashboard.store.retention import drop_project
from warpwatch.dashboard.store.tokens import create_token

KERNELS, UPLOADS = "kernels", "uploads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An address without a slash at its end, what is behind it, and some of its names."""

    url: str
    store: Store
    token: str
    keys: tuple[str, ...]  # of series of the kernels and of the hostile project
    commits: tuple[str, ...]  # of the kernels, newest first


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The service on a socket; nothing but uploads to the third project changes its store."""
    database = copy_database(recorded_history(tmp_path_factory).database, tmp_path_factory.mktemp("api") / "history.db")
    settings = Settings(database=database, upload_limit_mib=1)
    store = Store(settings.database)
    drop_project(store, "young")
    for group in itertools.islice(new_regressions(store, KERNELS, recent_days=1000, max_false_discovery_rate=1.0), 2):
        open_regression_alert(store, group, messages={}, now_ms=1_760_000_000_000)
    silent = HealthFinding(
        kind=AlertKind.MISSING_DATA,
        subject="runner-t4",
        machine="runner-t4",
        kernel=None,
        summary="no results for 3 days",
        members=("runner-t4",),
        lines=("the newest is of Monday",),
    )
    assert open_health_alert(store, KERNELS, silent, thread="t", messages={}, now_ms=1_760_000_000_000)
    token = create_token(store, UPLOADS, name="tests", now_ms=1)
    latencies = queries.find_series(store, KERNELS, search="track_latency", limit=40).series
    hostile = queries.find_series(store, HOSTILE).series
    with serving(settings) as url:
        yield Api(
            url=url,
            store=store,
            token=token,
            keys=tuple(one.key for one in (*latencies, *hostile)),
            commits=tuple(commit.hash for commit in queries.commits(store, KERNELS)),
        )
    store.close()
