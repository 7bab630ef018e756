"""Queries of pages, commands and alerts: a store in, frozen records out.

Each function opens its own read transaction. An unknown name gives None, or an empty tuple from functions of lists.
"""

from .change_evidence import change_evidence, launches_at
from .commits import (
    AmbiguousCommitError,
    commit_list,
    commit_page,
    commits,
    find_commit,
    steps_of_commits,
)
from .comparison_details import (
    between,
    compiled_at,
    implementations,
    measured_on,
    newest_measured,
    newest_of_machines,
    samples_at,
    series_points,
)
from .comparison_pairs import pairs
from .compiled_code import code_between, compiled_for
from .kernels import kernel
from .machine_code import equal_code_pairs, ran_codes
from .machines import canaries, commit_software, conditions, judged_times, machine_history, software
from .measurements import changes, measurements
from .overview import overview, report, siblings
from .projects import machines, project, projects
from .regressions import regressions, series_changes, stated_changes, unattributed_changes
from .roofline import rooflines
from .search import search
from .series import elsewhere, origin, own_history, point_facts, series
from .series_lines import step_lines
from .series_list import find_series, latency_series, matching, metrics_and_implementations, project_workloads
from .series_view import HistoryRequest, shown_history
from .standings import adjusting_ratios, arrivals, levels, standings
from .triage_items import triage_item, triage_items
