"""Comparisons and commits as pages ask for them: remembered while the project's record stands still."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from flask import current_app

from warpwatch.dashboard.comparing import Compared, compare_commits, compare_implementations, compare_machines
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.remembered import Remembered
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import Commit

Answer = TypeVar("Answer")


def compared_commits(project: str, base: Commit, head: Commit, *, all_metrics: bool = False) -> Compared:
    """What `warpwatch check` says of two commits."""
    return remembered(
        project, ("commits", base.hash, head.hash, all_metrics),
        lambda: compare_commits(store(), project, base, head, threshold=_threshold(), all_metrics=all_metrics),
        lambda compared: len(compared.rows),
    )  # fmt: skip


def compared_machines(project: str, commit: Commit, base: str, head: str) -> Compared:
    """Two machines at a commit."""
    return remembered(
        project, ("machines", commit.hash, base, head),
        lambda: compare_machines(store(), project, commit, base, head, threshold=_threshold()),
        lambda compared: len(compared.rows),
    )  # fmt: skip


def compared_implementations(project: str, commit: Commit, base: str, head: str) -> Compared:
    """Two implementations at a commit; empty names mean every baseline, and every one of ours."""
    return remembered(
        project, ("implementations", commit.hash, base, head),
        lambda: compare_implementations(store(), project, commit, base, head, threshold=_threshold()),
        lambda compared: len(compared.rows),
    )  # fmt: skip


def remembered(
    project: str, asked: Hashable, make: Callable[[], Answer], rows: Callable[[Answer], int]
) -> Answer:  # fmt: skip
    """The answer about a project, made anew whenever anything was recorded meanwhile."""
    known = current_app.extensions["remembered"]
    assert isinstance(known, Remembered)
    state = queries.project_state(store(), project)
    return known.get((project, state, asked), make, lambda answer: rows(answer) + 1)


def _threshold() -> float:
    return float(current_app.config["THRESHOLD"])
