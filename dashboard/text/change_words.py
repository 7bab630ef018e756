"""Sentences about one change of a series: its direction, how certain it is, and the answer of the series' page."""

from ..model.changepoint import SeriesChange
from ..model.metric import Metric
from ..model.quantities import change as signed
from ..model.quantities import quantity, share
from ..model.verdict import ChangeKind
from .labels import change_word

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
