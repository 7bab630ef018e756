"""Labels of verdicts, states, kinds of change, shares, times and counts."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from markupsafe import Markup

from ..model import quantities
from ..model.changepoint import ControlShare, SeriesChange
from ..model.metric import Metric, MetricRole
from ..model.overview import OverviewEntry, OverviewRow, RowState
from ..model.quantities import change, number
from ..model.verdict import ChangeKind, Control, NoiseSource, Verdict
from ..statistics.gpu_effects import FEWEST
from ..statistics.summary import ENOUGH_COMMITS

_VERDICT_WORDS = {
    Verdict.REGRESSED: "Regressed",
    Verdict.IMPROVED: "Improved",
    Verdict.UNCHANGED: "Unchanged",
    Verdict.INCONCLUSIVE: "Inconclusive",
    Verdict.INVALID: "Invalid",
    Verdict.MISSING: "Missing",
}
_VERDICT_MEANINGS = {
    Verdict.REGRESSED: "The level got worse within the last 30 days",
    Verdict.IMPROVED: "The level got better within the last 30 days",
    Verdict.UNCHANGED: "No change of level within the last 30 days",
    Verdict.INCONCLUSIVE: "Too few commits, too few references on another GPU, or a change that is not significant or"
    " not yet classified",
    Verdict.INVALID: "Measured without a valid value: throttled, wrong or failed",
    Verdict.MISSING: "Not recorded, or not available on this machine",
}
_COMPARED_MEANINGS = {
    Verdict.REGRESSED: "Significantly worse, and by enough to matter",
    Verdict.IMPROVED: "Significantly better, and by enough to matter",
    Verdict.UNCHANGED: "An equivalence test excludes a change that matters",
    Verdict.INCONCLUSIVE: "Too few or too noisy runs, or different conditions of the two sides: see the row's reason",
    Verdict.INVALID: "Valid at base, but throttled, wrong or failed at head",
    Verdict.MISSING: "One of the two sides has no value",
}
_KIND_MEANINGS = {
    ChangeKind.STEP: "The level changed at a commit and stayed",
    ChangeKind.NOT_SIGNIFICANT: "The level changed, but not significantly: q > 0.05 among all series of the run",
    ChangeKind.MACHINE_STATE: "The machine changed, or was in another of its states: caused by no commit",
    ChangeKind.TRANSIENT: "Values left their level and returned: caused by no commit",
    ChangeKind.DRIFT: "The level changed slowly over many commits: caused by no single commit",
    ChangeKind.SLOW_DECLINE: "The level is at least 3 % worse than up to a year ago, in steps too small to be found one"
    " by one",
    ChangeKind.UNJUDGED: "The level changed; attribution to a commit or the machine is pending",
}
_NOISE_SOURCES = {
    NoiseSource.RUNS: "by these runs",
    NoiseSource.RERUNS: "by re-runs",
    NoiseSource.HISTORY: "by history",
    NoiseSource.MACHINE: "by its machine",
    NoiseSource.REFERENCES: "by references",
    NoiseSource.SAMPLES: "by its samples",
    NoiseSource.ASSUMED: "assumed",
    NoiseSource.NONE: "of an exact quantity",
}
_CONTROL_WORDS = {
    Control.CANARIES: "the canaries",
    Control.BASELINES: "the baselines",
    Control.OTHERS: "the machine’s other series",
}
_LEAST_PART = 0.001  # of a cause of a slow decline, to be named
_NEGLIGIBLE_SHARE = 0.25  # of a change, in the machine's controls
_COUNT_UNITS = frozenset({"launches", "registers", "instructions", "barriers"})


def change_word(change: float | None, metric: Metric) -> str:
    """Direction of a change of this metric: "slower", "faster", "larger", "fewer", "worse" and so on."""
    if change is None or abs(change) < 0.0005:
        return ""
    worse = metric.is_worse(change)
    unit = metric.unit.strip().lower()
    if metric.is_time or unit.endswith("/s") or unit == "cycles":
        return "slower" if worse else "faster"
    if unit in {"bytes", "b"}:
        return "larger" if worse else "smaller"
    if unit in _COUNT_UNITS:
        return "more" if worse else "fewer"
    if unit == "joules":
        return "more" if worse else "less"
    return "worse" if worse else "better"


def kind_word(kind: ChangeKind) -> str:
    return kind.value.capitalize()


def kind_name(kind: ChangeKind) -> str:
    """A change of this kind, within a sentence."""
    return "insignificant step" if kind is ChangeKind.NOT_SIGNIFICANT else kind.value


def across_words(change: SeriesChange) -> str:
    """How a change of GPU-adjusted values was seen: "across GPUs, held on 4"; empty on one GPU."""
    if not change.is_across_gpus:
        return ""
    return "across GPUs" + (f", held on {change.gpus}" if change.gpus is not None and change.gpus > 1 else "")


def kind_meaning(kind: ChangeKind) -> str:
    return _KIND_MEANINGS[kind]


def share_words(share: ControlShare) -> str:
    """The share of a change that the machine's controls show too."""
    controls = _CONTROL_WORDS[share.control]
    low, high = (quantities.share(part) for part in (share.ci_low, share.ci_high))
    if share.ci_low > 0:
        return f"{controls} show {quantities.share(share.value)} of it ({low} to {high})"
    if share.ci_high < 0:
        opposite = [quantities.share(-part) for part in (share.value, share.ci_high, share.ci_low)]
        return f"{controls} changed in the opposite direction, by {opposite[0]} of it ({opposite[1]} to {opposite[2]})"
    if share.ci_high < _NEGLIGIBLE_SHARE:
        return f"{controls} did not change"
    return f"{controls} may explain {'all' if share.ci_high >= 1 else f'up to {high}'} of it"


def control_words(control: Control) -> str:
    """The name of a kind of control."""
    return _CONTROL_WORDS[control]


def web_name(address: str) -> str:
    """Text of a link to this address: the host, and the last part of the path if it is short."""
    parts = urlsplit(address)
    last = parts.path.rstrip("/").rpartition("/")[2]
    return f"{parts.hostname} {last}" if 0 < len(last) <= 12 else str(parts.hostname)


def web_host(address: str) -> str:
    """Host of the address: "github.com"."""
    return str(urlsplit(address).hostname)


def q_words(q: float) -> str:
    """The false discovery rate of a change: "q 0.02"."""
    return "q < 0.001" if q < 0.001 else f"q {float(f'{q:.2g}'):g}"


def role_word(metric: Metric) -> str:
    """Why the metric is not judged."""
    return "not judged: restates the latency" if metric.role is MetricRole.RESTATED else "not judged"


def share_apart(difference: float) -> str:
    """Relative difference: "0.21 %"."""
    return f"{difference * 100:.2f} %"


def limit(change: float) -> str:
    """A threshold: "2.5 %"; from a factor of two on "2.51×"."""
    return f"{change * 100:.3g} %" if change < 1 else quantities.ratio(1 + change)


def percent(share: float) -> str:
    """Length in SVG, at most 100 %: 0.632 is "63.2%"."""
    return f"{max(0.0, min(share, 1.0)) * 100:.1f}%"


def verdict_word(verdict: Verdict) -> str:
    return _VERDICT_WORDS[verdict]


def verdict_meaning(verdict: Verdict) -> str:
    """Explanation of a series' verdict."""
    return _VERDICT_MEANINGS[verdict]


def compared_meaning(verdict: Verdict) -> str:
    """Explanation of a verdict in a comparison."""
    return _COMPARED_MEANINGS[verdict]


def noise_by(source: NoiseSource) -> str:
    """Source of the noise: "by re-runs"."""
    return _NOISE_SOURCES[source]


def shortened(text: str, most: int) -> str:
    """The text, or its first characters with "…" if it has more than `most`."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short_hash(commit_hash: str) -> str:
    """Eight digits, as in asv's file names."""
    return commit_hash[:8]


def day(time: datetime | None) -> str:
    """The date alone, in UTC."""
    return "–" if time is None else f"{as_utc(time):%Y-%m-%d}"


def moment(time: datetime | None) -> str:
    """Date and minute in UTC."""
    return "–" if time is None else f"{as_utc(time):%Y-%m-%d %H:%M} UTC"


def iso(time: datetime) -> str:
    """ISO 8601 for machines."""
    return as_utc(time).isoformat()


def span(length: timedelta) -> str:
    """Duration in its largest unit, rounded down: "5 min", "3 days", "less than a min"."""
    for size, word in (
        (timedelta(days=365), "year"),
        (timedelta(days=30), "month"),
        (timedelta(days=1), "day"),
        (timedelta(hours=1), "hour"),
        (timedelta(minutes=1), "min"),
    ):
        if length >= size:
            number = int(length / size)
            return f"{number} {word}{'s' if number > 1 and word != 'min' else ''}"
    return "less than a min"


def every(length: timedelta) -> str:
    """Interval: "every 5 hours", "every day"."""
    return f"every {span(length).removeprefix('1 ')}"


def count(number: int, word: str, plural: str | None = None) -> str:
    """A number with its noun: "1 commit", "1,396 commits"."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def breakable(name: str) -> Markup:
    """The name with line break opportunities after dots, underscores and slashes."""
    return Markup("<wbr>").join(re.split(r"(?<=[._/])", name))


def as_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


_WORDS = {
    RowState.REGRESSED: "Regressed",
    RowState.STOPPED: "Stopped",
    RowState.INVALID: "Invalid",
    RowState.UNJUDGED: "Not classified",
    RowState.IMPROVED: "Improved",
    RowState.NOT_SIGNIFICANT: "Not significant",
    RowState.UNCHANGED: "Unchanged",
    RowState.FEW_REFERENCES: "Few references",
    RowState.NEW: "Too new",
    RowState.MISSING: "Missing",
}
_MEANINGS = {
    RowState.REGRESSED: "The level got worse in the last 30 days and stayed there",
    RowState.STOPPED: "The machine measures other series, but not this one for three times its typical interval",
    RowState.INVALID: "No valid value at the newest commit: throttled, wrong or failed",
    RowState.UNJUDGED: "The level changed within the last 30 days; attribution to a commit or the machine is pending",
    RowState.IMPROVED: "The level got better in the last 30 days and stayed there",
    RowState.NOT_SIGNIFICANT: (
        "The level changed within the last 30 days, but not significantly: q > 0.05 over all series"
    ),
    RowState.UNCHANGED: "No change of level within the last 30 days",
    RowState.FEW_REFERENCES: f"Another GPU measures it now, and fewer than {FEWEST} references (canaries, baselines,"
    " unchanged kernels) were measured on both. Measure the previous commit on this GPU, or more of the suite on both",
    RowState.NEW: f"Fewer than {ENOUGH_COMMITS} commits have a value: no verdict yet",
    RowState.MISSING: "Not recorded, or not available on this machine",
}


def state_word(state: RowState) -> str:
    return _WORDS[state]


def state_meaning(state: RowState) -> str:
    return _MEANINGS[state]


def cause_words(change_of_year: SeriesChange) -> str:
    """The causes of a slow decline, the largest first; empty where they are not known."""
    causes = change_of_year.causes.items()
    shown = [f"{cause.value} {change(part)}" for cause, part in causes if abs(part) >= _LEAST_PART]
    return ", ".join(shown)


def decline_words(decline: SeriesChange) -> str:
    """A slow decline with its largest cause: "slow decline +5.6 % (code)"."""
    cause = next(iter(decline.causes), None)
    return f"slow decline {change(decline.magnitude)}" + (f" ({cause.value})" if cause else "")


def state_detail(standing: OverviewEntry) -> str:
    """Numbers of a state, and a slow decline; empty without any."""
    decline = decline_words(standing.decline) if standing.decline is not None else ""
    return "; ".join(words for words in (_state_numbers(standing), decline) if words)


def _state_numbers(standing: OverviewEntry) -> str:
    row = standing.row
    if standing.is_across_gpus:
        held = f", held on {row.gpus}" if row.gpus is not None and row.gpus > 1 else ""
        return f"{change(row.change)} across GPUs{held}"
    if standing.state is RowState.UNCHANGED and row.gpu_spread is not None:
        return f"GPU-to-GPU spread ±{share_apart(row.gpu_spread)}"
    if standing.state is RowState.NOT_SIGNIFICANT and row.change is not None and row.change_q is not None:
        return f"{change(row.change)}, q {number(row.change_q)}"
    if standing.state is RowState.FEW_REFERENCES and row.gpu_references is not None:
        return f"{row.gpu_references} of {FEWEST}"
    if standing.state is RowState.FEW_REFERENCES:
        return f"{standing.gpu_commits} of {ENOUGH_COMMITS} commits on this GPU"
    if standing.state is RowState.NEW:
        return f"{standing.numbers} of {ENOUGH_COMMITS} commits"
    return ""


def inconclusive_reason(row: OverviewRow) -> str | None:
    """Why a series has no verdict; None if it has one."""
    if row.verdict is not Verdict.INCONCLUSIVE:
        return None
    if row.change_kind is ChangeKind.NOT_SIGNIFICANT and row.change_q is not None:
        return f"a step of {change(row.change)} is not significant: {q_words(row.change_q)}"
    if row.change_kind is not None:
        return "its step is not yet classified"
    if row.gpu_references is not None and row.gpu_references < FEWEST:
        return f"another GPU measures it now, with {row.gpu_references} of {FEWEST} references"
    return f"fewer than {ENOUGH_COMMITS} commits have a value on its GPU"
