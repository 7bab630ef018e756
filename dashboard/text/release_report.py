"""The release report as Markdown, for release notes."""

from collections.abc import Iterable, Sequence

from ..model.quantities import change, ratio
from ..model.release_report import LatencyChange, MetricChange, ReleaseReport
from ..model.schema import CommitSchema
from .labels import count
from .markdown import code_span, inert


def as_markdown(report: ReleaseReport) -> str:
    """A sentence and a table of kernels for each machine, then the other metrics that changed."""
    lines = [f"## Performance: {name_of(report.base, report.base_name)} → {name_of(report.head, report.head_name)}"]
    for machine in report.machines:
        lines += ["", f"**{inert(machine.machine)}**: {sentence(report, machine)}."]
        if machine.workloads:
            lines += ["", *_table(report, [each for each in report.kernels if each.machine == machine.machine])]
    if report.others:
        lines += ["", "Other metrics:", "", *map(_other, report.others)]
    return "\n".join([*lines, ""])


def name_of(commit: CommitSchema, tag: str | None) -> str:
    """The tag, else the shortened hash."""
    return inert(tag) if tag else f"`{commit.hash[:8]}`"


def sentence(report: ReleaseReport, change_of: LatencyChange) -> str:
    """The counts, mean and standing against the baselines in one sentence."""
    if not change_of.workloads:
        return "not measured at both commits"
    counts = [(change_of.faster, "faster"), (change_of.slower, "slower"), (change_of.inconclusive, "inconclusive")]
    parts = [f"{number} {word}" for number, word in counts if number]
    text = f"{', '.join(parts) if parts else 'no change'} of {count(change_of.workloads, report.workload_word)}"
    if change_of.change is not None:
        text += f"; {report.metric} {change(change_of.change)} (geometric mean)"
    if change_of.speedup_head is not None:
        text += f"; {ratio(change_of.speedup_head)} the best baseline"
        text += f" (was {ratio(change_of.speedup_base)})" if change_of.speedup_base is not None else ""
    return text


def outcome(change_of: LatencyChange) -> list[str]:
    """What happened to a kernel's workloads: "5 of 7 faster", "1 of 7 inconclusive"; "new"; "no change"."""
    if change_of.is_new or change_of.is_removed:
        return ["new" if change_of.is_new else "removed"]
    counts = [(change_of.faster, "faster"), (change_of.slower, "slower"), (change_of.inconclusive, "inconclusive")]
    parts = [f"{number} of {change_of.workloads} {word}" for number, word in counts if number]
    parts += [f"{number} {word}" for number, word in ((change_of.new, "new"), (change_of.removed, "removed")) if number]
    return parts or ["no change"]


def _table(report: ReleaseReport, kernels: Sequence[LatencyChange]) -> Iterable[str]:
    has_baselines = any(each.speedup_head is not None for each in kernels)
    yield f"| {report.kernel_word} | {report.metric} | {report.workload_word}s |" + (
        " against best baseline |" if has_baselines else ""
    )
    yield "|---|--:|---|" + ("--:|" if has_baselines else "")
    for each in kernels:
        cells = [code_span(each.kernel or ""), change(each.change), ", ".join(outcome(each))]
        if has_baselines:
            cells.append(standing(each))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def standing(change_of: LatencyChange) -> str:
    """The speedup over the best baseline, with what it was if it moved: "1.2× → 1.43×"."""
    before, now = ratio(change_of.speedup_base), ratio(change_of.speedup_head)
    if change_of.speedup_base is None or before == now:
        return now
    return f"{before} → {now}"


def _other(metric: MetricChange) -> str:
    direction = "worse" if metric.is_worse else "better"
    amount = f" {change(metric.change)}" if metric.change is not None else ""
    series = count(metric.series, "series", "series")
    return f"- {code_span(metric.kernel)}: {metric.label}{amount} ({direction}, {series}, {inert(metric.machine)})"
