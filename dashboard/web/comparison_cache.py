"""Cached comparisons for pages and API."""

from flask import current_app

from ..analysis.compare_sides import Compared, compare_commits, compare_implementations, compare_machines
from ..analysis.release_report import ReleaseReport, release_report
from ..model.series import Commit
from ..store.cache import ROW_BYTES
from .request_context import store


def compared_commits(project: str, base: Commit, head: Commit, *, all_metrics: bool = False) -> Compared:
    """Two commits, as by `warpwatch check`."""
    return store().cached(
        project,
        ("commits compared", base.hash, head.hash, all_metrics),
        lambda: compare_commits(store(), project, base, head, threshold=_threshold(), all_metrics=all_metrics),
        size=_bytes,
    )


def cached_report(project: str, base: Commit, head: Commit) -> ReleaseReport:
    return store().cached(
        project,
        ("release report", base.hash, head.hash),
        lambda: release_report(store(), project, compared_commits(project, base, head), base, head),
    )


def compared_machines(project: str, commits: tuple[Commit, Commit], base: str, head: str) -> Compared:
    return store().cached(
        project,
        ("machines compared", *(commit.hash for commit in commits), base, head),
        lambda: compare_machines(store(), project, commits, base, head, threshold=_threshold()),
        size=_bytes,
    )


def compared_implementations(project: str, commit: Commit, base: str, head: str) -> Compared:
    """Two implementations at a commit; an empty name means every baseline, or all of ours."""
    return store().cached(
        project,
        ("implementations compared", commit.hash, base, head),
        lambda: compare_implementations(store(), project, commit, base, head, threshold=_threshold()),
        size=_bytes,
    )


def _bytes(compared: Compared) -> int:
    return ROW_BYTES * len(compared.rows) + compared.columns.nbytes


def _threshold() -> float:
    return float(current_app.config["THRESHOLD"])
