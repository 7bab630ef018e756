"""Applies acceptances in replies to an artefact."""

from collections.abc import Sequence

from warpwatch.dashboard.model.comparison import Acceptance, outcome_of

from ..acceptance import covering
from ..gate.artefact import ArtefactRow, GateArtefact
from ..gate.artefact_builder import bounded_acceptance

_MOST_EXPIRED = 10


def with_replies(
    artefact: GateArtefact, replies: Sequence[Acceptance], expired: Sequence[Acceptance] = ()
) -> GateArtefact:
    """The artefact with each row accepted by the first reply that covers it; earlier acceptances stay.

    Its notes list replies to an earlier head that would cover a blocking row.
    """
    rows = tuple(_accepted(row, replies) for row in artefact.rows)
    relevant = [each for each in expired if any(row.is_blocking and covering([each], row) for row in rows)]
    notes = tuple(dict.fromkeys(_expired_note(each, artefact.head.hash) for each in relevant))
    return artefact.model_copy(
        update={
            "rows": rows,
            "outcome": outcome_of((*rows, *artefact.left_out)),
            "notes": (*artefact.notes, *notes[:_MOST_EXPIRED]),
        }
    )


def _expired_note(reply: Acceptance, head: str) -> str:
    return (
        f"{reply.pattern}, accepted by {reply.by} ({reply.source}) before {head[:8]}, has expired: reply again if it "
        f"is still meant ({reply.reason[:200]})"
    )


def _accepted(row: ArtefactRow, replies: Sequence[Acceptance]) -> ArtefactRow:
    reply = covering(replies, row) if row.accepted is None else None
    return row if reply is None else row.model_copy(update={"accepted": bounded_acceptance(reply)})
