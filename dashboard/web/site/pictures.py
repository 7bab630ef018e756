"""Pictures of a site's histories and rooflines for READMEs: SVG, which kaleido draws in this machine's browser."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

import plotly.graph_objects as go
import plotly.io as pio

from ...analysis.thresholds import step_thresholds
from ...store import Store, queries
from ...store.queries.series_view import HistoryRequest
from ..figures.history import history_figure
from ..figures.history_lines import name_in_project
from ..figures.history_view import HistoryView
from ..figures.roofline import roofline_figure
from ..figures.style import Theme, in_theme, plain
from ..urls import project_in_path
from .site_files import SiteContent, plain_name

_WIDTH, _HEIGHT = 900, 420
_AT_ONCE = 200  # figures that are held in memory; a browser is started for as many


def write_pictures(store: Store, folder: Path, choice: SiteContent) -> list[Path]:
    """Write PROJECT/series/KEY/history.svg of every chosen series and PROJECT/roofline-MACHINE.svg, also as …-dark.svg.

    Returns the files that kaleido could not write. Raises RuntimeError where kaleido or a browser is not installed.
    """
    pictures, failed = _pictures(store, folder, choice), []
    while some := list(islice(pictures, _AT_ONCE)):
        files = [file for _, file in some]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
        pio.write_images([made for made, _ in some], files, format="svg", width=_WIDTH, height=_HEIGHT)
        failed += [file for file in files if not file.exists()]
    return failed


def _pictures(store: Store, folder: Path, choice: SiteContent) -> Iterator[tuple[go.Figure, Path]]:
    for project in sorted(choice.projects):
        for name, made in _figures(store, project, choice.series):
            for theme in Theme:
                file = (
                    folder
                    / plain_name(unquote(project_in_path(project)))
                    / f"{name}{'-dark' if theme is Theme.DARK else ''}.svg"
                )
                yield in_theme(made, theme), file


def _figures(store: Store, project: str, keys: Iterable[str]) -> Iterator[tuple[str, go.Figure]]:
    """Figures with their titles, by the names of their files."""
    for roofline in queries.rooflines(store, project):
        machine = roofline.machine.name
        yield f"roofline-{plain_name(machine)}", _titled(roofline_figure(roofline), f"Roofline of {machine}")
    limits = step_thresholds(store, project)
    for key in sorted(keys):
        shown = queries.shown_history(store, key, HistoryRequest())
        if shown is not None and shown.history.series.project == project:
            series = shown.history.series
            changes = limits.mark_below_threshold(series, shown.history.changes)
            shown = replace(shown, history=replace(shown.history, changes=changes))
            yield f"series/{key}/history", _titled(history_figure(shown, HistoryView()), name_in_project(series))


def _titled(made: go.Figure, title: str) -> go.Figure:
    """The figure with a title, which a picture needs outside of its page."""
    place = {"x": 0.01, "y": 0.97, "yanchor": "top"}
    return made.update_layout(title={"text": plain(title), "font": {"size": 14}, **place}, margin={"t": 90})
