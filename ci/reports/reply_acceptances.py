"""Replies applied to an artefact: the rows that someone accepted, and the outcome without them."""

from collections.abc import Sequence

from warpwatch.dashboard.model.comparison import Acceptance, outcome_of

from ..acceptance.coverage import covering
from ..gate.artefact import ArtefactRow, GateArtefact
from ..gate.artefact_builder import bounded_acceptance

_MOST_EXPIRED = 10


def with_replies(
    artefact: GateArtefact, replies: Sequence[Acceptance], expired: Sequence[Acceptance] = ()
) -> GateArtefact:
    """The artefact with its rows accepted, each by the first reply that covers it; earlier acceptances stay.

    Its notes list the replies to an earlier head that would have covered a row which blocks now.
    """
    rows = tuple(_accepted(row, replies) for row in artefact.rows)
    lapsed = [each for each in expired if any(row.is_blocking and covering([each], row) for row in rows)]
    notes = tuple(dict.fromkeys(_expired_note(each, artefact.head.hash) for each in lapsed))
    return artefact.model_copy(
        update={
            "rows": rows,
            "outcome": outcome_of((*rows, *artefact.left_out)),
            "notes": (*artefact.notes, *notes[:_MOST_EXPIRED]),
        }
    )


def _expired_note(reply: Acceptance, head: str) -> str:
    return (
        f"{reply.pattern}, accepted by {reply.by} ({reply.source}) until {head[:8]} came, has expired: say it of this "
        f"commit too if it is still meant ({reply.reason[:200]})"
    )


def _accepted(row: ArtefactRow, replies: Sequence[Acceptance]) -> ArtefactRow:
    reply = covering(replies, row) if row.accepted is None else None
    return row if reply is None else row.model_copy(update={"accepted": bounded_acceptance(reply)})
