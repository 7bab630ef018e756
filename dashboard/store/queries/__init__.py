"""Everything the pages, `report`, `check` and the alerts read: store in, frozen records out.

Each function opens its own read transaction. An unknown name gives None, or an empty tuple where a list is asked.
"""

from warpwatch.dashboard.store.queries.arrivals import arrivals
from warpwatch.dashboard.store.queries.canaries import canaries
from warpwatch.dashboard.store.queries.cards import card, cards
from warpwatch.dashboard.store.queries.changes import changes
from warpwatch.dashboard.store.queries.code_between import code_between
from warpwatch.dashboard.store.queries.code_of_machine import compiled_for
from warpwatch.dashboard.store.queries.codes import equal_code_pairs
from warpwatch.dashboard.store.queries.commit_list import commit_list
from warpwatch.dashboard.store.queries.commits import AmbiguousCommitError, commit_page, commits, find_commit
from warpwatch.dashboard.store.queries.comparing import (
    between,
    compiled_at,
    implementations,
    measured_on,
    newest_measured,
    project_workloads,
    samples_at,
    series_points,
)
from warpwatch.dashboard.store.queries.conditions import conditions, software
from warpwatch.dashboard.store.queries.kernels import kernel
from warpwatch.dashboard.store.queries.machine_history import machine_history
from warpwatch.dashboard.store.queries.measurements import measurements
from warpwatch.dashboard.store.queries.origins import origin
from warpwatch.dashboard.store.queries.overview import overview
from warpwatch.dashboard.store.queries.pairs import pairs
from warpwatch.dashboard.store.queries.point_facts import point_facts
from warpwatch.dashboard.store.queries.projects import machines, project, projects
from warpwatch.dashboard.store.queries.ran_codes import ran_codes
from warpwatch.dashboard.store.queries.regressions import regressions
from warpwatch.dashboard.store.queries.relatives import elsewhere
from warpwatch.dashboard.store.queries.report import report
from warpwatch.dashboard.store.queries.rooflines import rooflines
from warpwatch.dashboard.store.queries.search import search
from warpwatch.dashboard.store.queries.series import history, series
from warpwatch.dashboard.store.queries.series_changes import series_changes
from warpwatch.dashboard.store.queries.series_list import find_series, metrics_and_implementations
from warpwatch.dashboard.store.queries.shown_history import Wanted, shown_history
from warpwatch.dashboard.store.queries.siblings import siblings
from warpwatch.dashboard.store.queries.standings import standings
from warpwatch.dashboard.store.queries.stated import stated_changes
from warpwatch.dashboard.store.queries.steps_of_commits import steps_of_commits
from warpwatch.dashboard.store.queries.unaccused import unaccused

__all__ = [
    "AmbiguousCommitError",
    "Wanted",
    "arrivals",
    "between",
    "canaries",
    "card",
    "cards",
    "changes",
    "code_between",
    "commit_list",
    "commit_page",
    "commits",
    "compiled_at",
    "compiled_for",
    "conditions",
    "elsewhere",
    "equal_code_pairs",
    "find_commit",
    "find_series",
    "history",
    "implementations",
    "kernel",
    "machine_history",
    "machines",
    "measured_on",
    "measurements",
    "metrics_and_implementations",
    "newest_measured",
    "origin",
    "overview",
    "pairs",
    "point_facts",
    "project",
    "project_workloads",
    "projects",
    "ran_codes",
    "regressions",
    "report",
    "rooflines",
    "samples_at",
    "search",
    "series",
    "series_changes",
    "series_points",
    "shown_history",
    "siblings",
    "software",
    "standings",
    "stated_changes",
    "steps_of_commits",
    "unaccused",
]
