"""Whether a commit's comparison and the history agree, in words."""

from ..analysis.commit_kernels import Agreement, KernelAtCommit
from .labels import count

_KINDS = {
    "not significant": "a step that is not significant",
    "transient": "values returned to their level",
    "machine state": "attributed to the machine",
    "drift": "part of a slow drift",
    "not yet judged": "not yet classified",
    "step": "a step below the threshold",
}


def agreement_words(line: KernelAtCommit) -> str:
    """One clause: "both agree", or why one of the two has no change."""
    if line.agreement is Agreement.AGREE:
        return "both agree"
    if line.agreement is Agreement.OPPOSITE:
        return "they show different metrics or directions: see the rows below"
    reason, number = line.reasons[0]
    if line.agreement is Agreement.ONLY_HISTORY:
        why = {
            "unchanged": "these two commits alone differ by less than the threshold",
            "missing": "not measured at both commits",
            "invalid": "no valid value here",
        }.get(reason, reason)
        return f"history only; pair: {why} ({count(number, 'series', 'series')})"
    if reason:
        return f"pair only; history: {_KINDS[reason]}"
    if line.is_newest:
        return "pair only; history: needs later commits or further runs to tell a lasting change"
    return "pair only; history: no lasting change of level here"
