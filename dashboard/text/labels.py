"""Labels: what a verdict, a state, a kind of change, a share or a date is called."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from markupsafe import Markup

from ..model import quantities
from ..model.changepoint import ControlShare
from ..model.metric import Metric, Role
from ..model.overview import Standing, State
from ..model.quantities import change, number
from ..model.verdict import ChangeKind, Control, NoiseSource, Verdict
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
    Verdict.INCONCLUSIVE: "Too few commits on this GPU, too much noise, or a change that is not significant or not yet"
    " classified",
    Verdict.INVALID: "Measured without a valid number: throttled, wrong or failed",
    Verdict.MISSING: "Not recorded, or not available on this machine",
}
_COMPARED_MEANINGS = {
    Verdict.REGRESSED: "Significantly worse, and by enough to matter",
    Verdict.IMPROVED: "Significantly better, and by enough to matter",
    Verdict.UNCHANGED: "An equivalence test excludes a change that matters",
    Verdict.INCONCLUSIVE: "Too few or too noisy runs, or different conditions of the two sides: see the row's reason",
    Verdict.INVALID: "Has a number at base, and none at head: throttled, wrong or failed",
    Verdict.MISSING: "One of the two sides has no number",
}
_KIND_MEANINGS = {
    ChangeKind.STEP: "The level changed at a commit and stayed",
    ChangeKind.MAY_BE_CHANCE: "The level changed, but not significantly: q > 0.05 among all series of the run",
    ChangeKind.MACHINE_STATE: "The machine changed, or was in another of its states: caused by no commit",
    ChangeKind.TRANSIENT: "Values left their level and returned: caused by no commit",
    ChangeKind.DRIFT: "The level changed slowly over many commits: caused by no single commit",
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
    NoiseSource.NONE: "of what is exact",
}
_CONTROL_WORDS = {
    Control.CANARIES: "the canaries",
    Control.BASELINES: "the baselines",
    Control.OTHERS: "the machine’s other series",
}
_STOOD_STILL = 0.25  # of a change: a share that controls may have without being suspected
_COUNTED_WITH_FEWER = frozenset({"launches", "registers", "instructions", "barriers"})


def change_word(change: float | None, metric: Metric) -> str:
    """What a signed change means for this metric: "slower", "faster", "larger", "fewer", "worse" and so on."""
    if change is None or abs(change) < 0.0005:
        return ""
    worse = metric.is_worse(change)
    unit = metric.unit.strip().lower()
    if metric.is_time or unit.endswith("/s") or unit == "cycles":
        return "slower" if worse else "faster"
    if unit in {"bytes", "b"}:
        return "larger" if worse else "smaller"
    if unit in _COUNTED_WITH_FEWER:
        return "more" if worse else "fewer"
    if unit == "joules":
        return "more" if worse else "less"
    return "worse" if worse else "better"


def kind_word(kind: ChangeKind) -> str:
    """What a change is, as a heading word."""
    return kind.value.capitalize()


def kind_name(kind: ChangeKind) -> str:
    """One of its changes within a sentence."""
    return "doubtful step" if kind is ChangeKind.MAY_BE_CHANCE else kind.value


def kind_meaning(kind: ChangeKind) -> str:
    """What the kind means."""
    return _KIND_MEANINGS[kind]


def share_words(share: ControlShare) -> str:
    """The share of a change that the machine's controls show too."""
    who = _CONTROL_WORDS[share.control]
    low, high = (quantities.share(part) for part in (share.low, share.high))
    if share.low > 0:
        return f"{who} show {quantities.share(share.value)} of it ({low} to {high})"
    if share.high < 0:
        against = [quantities.share(-part) for part in (share.value, share.high, share.low)]
        return f"{who} moved the other way by {against[0]} of it ({against[1]} to {against[2]})"
    return f"{who} did not change" if share.high < _STOOD_STILL else f"{who} may explain up to {high} of it"


def control_words(control: Control) -> str:
    """The name of a kind of control."""
    return _CONTROL_WORDS[control]


def web_name(address: str) -> str:
    """What a link to this address says: the host, and the last part of the path where it is short."""
    parts = urlsplit(address)
    last = parts.path.rstrip("/").rpartition("/")[2]
    return f"{parts.hostname} {last}" if 0 < len(last) <= 12 else str(parts.hostname)


def web_host(address: str) -> str:
    """Where a link leads: "github.com"."""
    return str(urlsplit(address).hostname)


def q_words(q: float) -> str:
    """The false discovery rate of a change: "q 0.02"."""
    return "q < 0.001" if q < 0.001 else f"q {quantities.number(q)}"


def role_word(metric: Metric) -> str:
    """Why a metric that is not judged is not."""
    return "not judged: restates the latency" if metric.role is Role.RESTATED else "not judged"


def share_apart(difference: float) -> str:
    """How far two values lie apart, relative: "0.21 %"."""
    return f"{difference * 100:.2f} %"


def limit(change: float) -> str:
    """The smallest change that counts, as it was stated: "2.5 %"; from a factor of two on as changes are, "2.51×"."""
    return f"{change * 100:.3g} %" if change < 1 else quantities.ratio(1 + change)


def percent(share: float) -> str:
    """A share as a length for SVG, at most the whole: 0.632 is "63.2%"."""
    return f"{max(0.0, min(share, 1.0)) * 100:.1f}%"


def verdict_word(verdict: Verdict) -> str:
    """The verdict as a heading word."""
    return _VERDICT_WORDS[verdict]


def verdict_meaning(verdict: Verdict) -> str:
    """What the verdict means for a series' newest commits."""
    return _VERDICT_MEANINGS[verdict]


def compared_meaning(verdict: Verdict) -> str:
    """What the verdict means for two sides compared."""
    return _COMPARED_MEANINGS[verdict]


def noise_by(source: NoiseSource) -> str:
    """The evidence behind a noise: "by re-runs"."""
    return _NOISE_SOURCES[source]


def short_hash(commit_hash: str) -> str:
    """Eight digits, as asv's files have."""
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
    """A length of time in its largest unit, cut to whole ones: "5 min", "3 days"; below a minute "less than a min"."""
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
    """What recurs after that time: "every 5 hours", "every day"."""
    return f"every {span(length).removeprefix('1 ')}"


def count(number: int, word: str, plural: str | None = None) -> str:
    """A number with its noun: "1 commit", "1,396 commits"."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def breakable(name: str) -> Markup:
    """A dotted or underscored name that may go on in the next line after such a sign."""
    return Markup("<wbr>").join(re.split(r"(?<=[._/])", name))


def as_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


# What a row's state is called on a page, and what it says.

_WORDS = {
    State.REGRESSED: "Regressed",
    State.STOPPED: "Stopped",
    State.INVALID: "Invalid",
    State.UNJUDGED: "Not yet judged",
    State.IMPROVED: "Improved",
    State.MAY_BE_CHANCE: "May be chance",
    State.UNCHANGED: "Unchanged",
    State.NEW_CARD: "New card",
    State.NEW: "Too new",
    State.MISSING: "Missing",
}
_MEANINGS = {
    State.REGRESSED: "The level got worse within the last 30 days, and stayed so",
    State.STOPPED: "The machine measures other series, and not this one for three times its usual interval",
    State.INVALID: "No valid number at the newest commit: throttled, wrong or failed",
    State.UNJUDGED: "The level changed within the last 30 days; attribution to a commit or the machine is pending",
    State.IMPROVED: "The level got better within the last 30 days, and stayed so",
    State.MAY_BE_CHANCE: "The level changed within the last 30 days, but not significantly among all series (q > 0.05)",
    State.UNCHANGED: "No change of level within the last 30 days",
    State.NEW_CARD: "Another GPU measures it now. GPUs are not compared: the history starts anew, and has a verdict"
    f" from {ENOUGH_COMMITS} commits on",
    State.NEW: f"Fewer than {ENOUGH_COMMITS} commits have a number: no verdict yet",
    State.MISSING: "Not recorded, or not available on this machine",
}


def state_word(state: State) -> str:
    """The state as a heading word."""
    return _WORDS[state]


def state_meaning(state: State) -> str:
    """What the state means."""
    return _MEANINGS[state]


def state_detail(standing: Standing) -> str:
    """The numbers behind a state; empty where there are none."""
    row = standing.row
    if standing.state is State.MAY_BE_CHANCE and row.change is not None and row.change_q is not None:
        return f"{change(row.change)}, q {number(row.change_q)}"
    if standing.state is State.NEW_CARD:
        return f"{standing.card_commits} of {ENOUGH_COMMITS} commits on this card"
    if standing.state is State.NEW:
        return f"{standing.numbers} of {ENOUGH_COMMITS} commits"
    return ""
