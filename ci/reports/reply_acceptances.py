"""Replies laid upon an artefact: the rows that someone took for granted, and the verdict without them."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.naming import kernel_name
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import policy

from ..gate.artefact import Acceptance, ArtefactRow, GateArtefact, verdict_of

_MOST_EXPIRED = 10


def with_replies(
    artefact: GateArtefact, replies: Sequence[policy.Acceptance], expired: Sequence[policy.Acceptance] = ()
) -> GateArtefact:
    """The artefact with its rows accepted, each by the first reply that covers it; what was accepted before stays.

    Its notes say which replies of before this head would have covered a row that blocks now.
    """
    rows = tuple(_accepted(row, replies) for row in artefact.rows)
    lapsed = [each for each in expired if any(row.is_blocking and _covers(each, row) for row in rows)]
    notes = tuple(dict.fromkeys(_expired_words(each, artefact.head.hash) for each in lapsed))
    return artefact.model_copy(
        update={
            "rows": rows,
            "verdict": verdict_of(rows, artefact.left_out),
            "notes": (*artefact.notes, *notes[:_MOST_EXPIRED]),
        }
    )


def _expired_words(said: policy.Acceptance, head: str) -> str:
    return (
        f"{said.pattern}, accepted by {said.by} ({said.source}) until {head[:8]} came, has expired: say it of this "
        f"commit too if it is still meant ({said.reason[:200]})"
    )


def _accepted(row: ArtefactRow, replies: Sequence[policy.Acceptance]) -> ArtefactRow:
    said = next((each for each in replies if row.accepted is None and _covers(each, row)), None)
    if said is None:
        return row
    return row.model_copy(update={"accepted": Acceptance(by=said.by, reason=said.reason, source=said.source)})


def _covers(said: policy.Acceptance, row: ArtefactRow) -> bool:
    """What regressed or is gone, and what looks worse and could not be told: who takes the loss takes that too."""
    change = row.change.value if row.change is not None else None
    looks_worse = change is not None and (change > 0) == (row.better is Better.LOWER) and change != 0
    if not row.may_be_accepted or (row.verdict is Verdict.INCONCLUSIVE and not looks_worse):
        return False
    if said.at_most is not None and (change is None or abs(change) > said.at_most):
        return False
    names = (kernel_name(row.benchmark, row.operator), row.benchmark, row.title, row.key)
    return any(fnmatchcase(name, said.pattern) for name in names)
