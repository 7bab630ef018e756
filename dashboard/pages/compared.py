"""Comparisons as pages and API ask for them, cached."""

from flask import current_app

from warpwatch.dashboard.comparing import Compared, compare_commits, compare_implementations, compare_machines
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.store.cache import ROW_BYTES
from warpwatch.dashboard.store.records import Commit


def compared_commits(project: str, base: Commit, head: Commit, *, all_metrics: bool = False) -> Compared:
    """What `warpwatch check` says of two commits."""
    return store().cached(
        project,
        ("commits compared", base.hash, head.hash, all_metrics),
        lambda: compare_commits(store(), project, base, head, threshold=_threshold(), all_metrics=all_metrics),
        size=_bytes,
    )


def compared_machines(project: str, commit: Commit, base: str, head: str) -> Compared:
    """Two machines at a commit."""
    return store().cached(
        project,
        ("machines compared", commit.hash, base, head),
        lambda: compare_machines(store(), project, commit, base, head, threshold=_threshold()),
        size=_bytes,
    )


def compared_implementations(project: str, commit: Commit, base: str, head: str) -> Compared:
    """Two implementations at a commit; empty names mean every baseline, and every one of ours."""
    return store().cached(
        project,
        ("implementations compared", commit.hash, base, head),
        lambda: compare_implementations(store(), project, commit, base, head, threshold=_threshold()),
        size=_bytes,
    )


def _bytes(compared: Compared) -> int:
    return ROW_BYTES * len(compared.rows)


def _threshold() -> float:
    return float(current_app.config["THRESHOLD"])
