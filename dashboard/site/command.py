"""`warpwatch export --site`: the whole dashboard as files for GitHub Pages."""

from dataclasses import replace
from pathlib import Path

import click

from warpwatch.dashboard.access_settings import AccessSettings
from warpwatch.dashboard.app import create_app
from warpwatch.dashboard.commands import choose_project
from warpwatch.dashboard.opening import open_store, read_settings
from warpwatch.dashboard.site.choice import Choice
from warpwatch.dashboard.site.writing import write_site
from warpwatch.dashboard.store import Store, StoreError, queries
from warpwatch.dashboard.store.queries.series_list import find_series

_ALL = 10_000_000


def export_site(
    folder: Path, names: tuple[str, ...], newest: int, which: str, images: bool, database: str | None
) -> None:  # fmt: skip
    """Write the pages of the named projects and say how many files that are."""
    open_store(database).close()  # the application would create an empty one
    settings = read_settings()
    access = AccessSettings(requests_per_minute=0, secret_key=settings.access.secret_key)
    try:
        app = create_app(replace(settings, database=database or settings.database, access=access))
    except (StoreError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    store = app.extensions["store"]
    chosen = [choose_project(store, name).name for name in names or (None,)]
    choice = Choice(
        projects=frozenset(chosen),
        series=frozenset(key for name in chosen for key in _series(store, name, which)),
        commits=frozenset(commit.hash for name in chosen for commit in queries.commits(store, name, limit=newest)),
        has_all_series=which == "all",
    )
    written = write_site(app, folder, choice, images=images)
    store.close()
    for fault in written.faults:
        click.echo(f"left out: {fault}", err=True)
    click.echo(
        f"{written.files:,} files, {written.bytes / 1e6:,.1f} MB in {folder}, {written.seconds:.0f} s; look at it with"
        f" python -m http.server --directory {folder}"
    )


def _series(store: Store, project: str, which: str) -> list[str]:
    if which == "overview":
        return [row.series.key for row in queries.overview(store, project) if not row.was_never_there]
    found = find_series(store, project, limit=_ALL)
    return [
        series.key
        for series in found.series
        if which == "all" or (series.listed and series.is_watched and series.metric.is_judged)
    ]
