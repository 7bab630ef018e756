"""Sentences about changes: direction, certainty, cause, and whether a pair of commits and the history agree."""

from ..analysis.causes import ChangeCause, SoftwareChange
from ..analysis.commit_kernels import Agreement, KernelAtCommit
from ..model.changepoint import SeriesChange
from ..model.metric import Metric
from ..model.naming import SOFTWARE_NAMES
from ..model.quantities import change as signed
from ..model.quantities import quantity, share
from ..model.verdict import ChangeKind
from .labels import change_word, count

_LEAST_RATE = 0.001


def direction(change: SeriesChange, metric: Metric, *, is_ours: bool = True) -> str:
    """ "Faster", "Slower", "Larger" and so on; "Changed" for a series that no commit of the project changes."""
    return (change_word(change.magnitude, metric) if is_ours else "").capitalize() or "Changed"


def levels(change: SeriesChange, metric: Metric) -> str:
    """Both levels and the relative change: "114 µs → 69.4 µs, −39.4 %"."""
    before, after = (quantity(level, metric.unit) for level in (change.before, change.after))
    return f"{before} → {after}, {signed(change.magnitude, change.before)}"


def certainty(change: SeriesChange, metric: Metric) -> str:
    """How certain the change is, in plain words: "significant (false-discovery rate below 0.1 %)"."""
    held = f", held on {change.gpus}" if change.gpus is not None and change.gpus > 1 else ""
    across = f"; seen across GPUs{held}" if change.is_across_gpus else ""
    if change.kind is ChangeKind.MACHINE_STATE:
        return "caused by the machine, not by a commit"
    if change.kind is ChangeKind.UNJUDGED:
        return "not yet classified"
    if change.is_confirmed:
        return f"confirmed by further runs of both commits in turns{across}"
    if change.kind is ChangeKind.NOT_SIGNIFICANT:
        rate = f": false-discovery rate {share(change.q_value)}, too weak to report" if change.q_value else ""
        return f"not confirmed{rate}{across}"
    if metric.is_exact:
        return "certain, as this quantity has no noise"
    if change.q_value is None:
        return f"not yet classified{across}"
    rate = "below 0.1 %" if change.q_value < _LEAST_RATE else share(change.q_value)
    return f"significant (false-discovery rate {rate}){across}"


def later_sentence(change: SeriesChange, metric: Metric) -> str:
    """A newer change that is not significant: "Since then +2.1 % at 0aec5df1; not confirmed: …"."""
    at = change.commit.hash[:8]
    return f"Since then {signed(change.magnitude, change.before)} at {at}; {certainty(change, metric)}."


_HISTORY_KINDS = {
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
        return f"pair only; history: {_HISTORY_KINDS[reason]}"
    if line.is_newest:
        return "pair only; history: needs later commits or further runs to confirm a lasting change"
    return "pair only; history: no lasting change of level here"


def cause_words(cause: ChangeCause) -> str:
    """Strongest evidence first: "other kernel launched: rope_sm90a; harness changed"; empty without any."""
    words = []
    if cause.launched:
        words.append(f"other kernel launched: {cause.launched}")
    elif cause.code_changed:
        of = f" of {cause.code_changed} of {cause.with_code}" if cause.code_changed < cause.with_code else ""
        words.append(f"machine code{of} changed")
    elif cause.with_code:
        words.append("same machine code")
    words += map(software_words, cause.software)
    return "; ".join(words)


def software_words(change: SoftwareChange) -> str:
    """A change of a driver, a library or the harness: "driver 580.1 → 590.2", "harness changed"."""
    if change.name == "suite":
        return "harness changed"
    return f"{SOFTWARE_NAMES.get(change.name, change.name)} {change.before} → {change.after}"
