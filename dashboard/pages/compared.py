"""Comparisons as pages ask for them: worked out once, and remembered until somebody writes into the store."""

from flask import current_app

from warpwatch.dashboard.comparing import Compared, compare_commits, compare_implementations, compare_machines
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.store.records import Commit


def compared_commits(
    project: str, base: Commit, head: Commit, *, all_metrics: bool = False, may_be_former: bool = True
) -> Compared:
    """What `warpwatch check` says of two commits. Programs do not want what it said before the last import."""
    return store().remember(
        project,
        ("commits compared", base.hash, head.hash, all_metrics),
        lambda: compare_commits(store(), project, base, head, threshold=_threshold(), all_metrics=all_metrics),
        may_be_former=may_be_former,
        weigh=_rows,
    )


def compared_machines(project: str, commit: Commit, base: str, head: str) -> Compared:
    """Two machines at a commit."""
    return store().remember(
        project,
        ("machines compared", commit.hash, base, head),
        lambda: compare_machines(store(), project, commit, base, head, threshold=_threshold()),
        may_be_former=True,
        weigh=_rows,
    )


def compared_implementations(project: str, commit: Commit, base: str, head: str) -> Compared:
    """Two implementations at a commit; empty names mean every baseline, and every one of ours."""
    return store().remember(
        project,
        ("implementations compared", commit.hash, base, head),
        lambda: compare_implementations(store(), project, commit, base, head, threshold=_threshold()),
        may_be_former=True,
        weigh=_rows,
    )


def _rows(compared: Compared) -> int:
    return len(compared.rows)


def _threshold() -> float:
    return float(current_app.config["THRESHOLD"])
