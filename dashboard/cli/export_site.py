"""`warpwatch export --site`: the whole dashboard as files for GitHub Pages."""

from dataclasses import replace
from pathlib import Path

import click

from ..settings import AccessSettings
from ..store import Store, StoreError, queries
from ..store.queries.series_list import find_series
from ..web.app import create_app
from ..web.site.site_files import SiteContent, write_site
from .project_choice import choose_project
from .store_access import open_store, read_settings

_ALL = 10_000_000


def export_site(
    folder: Path, names: tuple[str, ...], newest: int, which: str, images: bool, database: str | None
) -> None:
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
    choice = SiteContent(
        projects=frozenset(chosen),
        series=frozenset(key for name in chosen for key in _series(store, name, which)),
        commits=frozenset(commit.hash for name in chosen for commit in queries.commits(store, name, limit=newest)),
        has_all_series=which == "all",
    )
    undrawn = _draw(store, folder, choice) if images else []
    written = write_site(app, folder, choice, badges=images)
    store.close()
    for fault in (*undrawn, *written.faults):
        click.echo(f"left out: {fault}", err=True)
    click.echo(
        f"{written.files:,} files, {written.bytes / 1e6:,.1f} MB in {folder}, {written.seconds:.0f} s; look at it with"
        f" python -m http.server --directory {folder}"
    )


def _draw(store: Store, folder: Path, choice: SiteContent) -> list[Path]:
    """Write the pictures; return those that could not be drawn. Raises a click error that names what to install."""
    from ..web.site.pictures import write_pictures

    try:
        return write_pictures(store, folder, choice)
    except RuntimeError as error:
        raise click.ClickException(
            "pictures need kaleido and Chromium or Chrome: pip install 'warpwatch[pictures]', and for example"
            " apt-get install chromium"
        ) from error


def _series(store: Store, project: str, which: str) -> list[str]:
    if which == "overview":
        return [row.series.key for row in queries.overview(store, project) if not row.was_never_there]
    found = find_series(store, project, limit=_ALL)
    return [
        series.key
        for series in found.series
        if which == "all" or (series.listed and series.is_ours and series.metric.is_judged)
    ]
