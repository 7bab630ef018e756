"""Hover texts. Plotly reads HTML in them, so foreign text is escaped."""

import textwrap
from collections.abc import Sequence

from ...model import quantities
from ...model.changepoint import SeriesChange
from ...model.history import Mark, MarkKind, no_number
from ...model.machine import RooflinePoint
from ...model.metric import Metric
from ...model.naming import gpu_name
from ...model.series import Commit, Point
from ...text.labels import shortened
from .style import plain

SHOW_TEXT = "%{text}<extra></extra>"  # hovertemplate: the text only
_SUBJECT = 70
_LINES = 6  # of a note


def point_text(point: Point, unit: str, *, more: Sequence[str] = (), short: bool = False) -> str:
    """Value, quartiles, samples, `more` lines, commit; with `short` only value, hash and date."""
    value = f"<b>{plain(quantities.quantity(point.value, unit))}</b>"
    if short:
        return f"{value}<br>{commit_text(point.commit, short=True)}"
    if point.q25 is not None and point.q75 is not None:
        low, high = quantities.quantity(point.q25, unit), quantities.quantity(point.q75, unit)
        value += f"  quartiles {plain(low)} to {plain(high)}"
    if point.sample_count:
        value += f", {point.sample_count} sample{'s' if point.sample_count > 1 else ''}"
    return "<br>".join([value, *map(plain, more), commit_text(point.commit)])


def canary_text(name: str, value: float, change: float, commit: Commit, *, short: bool = False) -> str:
    """A canary's value at a commit, and relative to its median."""
    lines = (quantities.latency(value), commit_text(commit, short=short))
    return "<br>".join([f"canary {plain(name)}: {quantities.change(change)}", *lines])


def mark_text(mark: Mark) -> str:
    """A release, a note or a change of the machine, with the commit."""
    words = plain(wrapped(mark.text))
    texts = {MarkKind.RELEASE: f"release <b>{words}</b>", MarkKind.MACHINE: f"machine: {words}"}
    by = f"<br>– {plain(mark.author)}" if mark.author else ""
    return f"{texts.get(mark.kind, words)}{by}<br>{commit_text(mark.commit)}".replace("\n", "<br>")


def wrapped(text: str) -> str:
    """A note, wrapped for the hover box."""
    return "\n".join(textwrap.wrap(text, _SUBJECT, max_lines=_LINES, placeholder=" …"))


def no_number_text(point: Point) -> str:
    """Status and reason of a failed measurement, and the commit."""
    text = no_number(point.status, point.reason or "no reason recorded")
    return f"{plain(text)}<br>{commit_text(point.commit)}"


def change_text(change: SeriesChange, metric: Metric, word: str) -> str:
    """Magnitude, kind, interval, levels and commit of a change."""
    before, after = (quantities.quantity(value, metric.unit) for value in (change.before, change.after))
    interval = ""  # exact metrics have none
    if change.ci_low < change.ci_high:
        interval = f" (95 %: {quantities.change_range(change.ci_low, change.ci_high)})"
    return (
        f"<b>{quantities.change(change.magnitude, change.before)}</b> {word}{interval}"
        f"<br>{plain(before)} → {plain(after)}<br>{commit_text(change.commit)}"
    )


def episode_text(episode: SeriesChange, metric: Metric) -> str:
    """Kind, magnitude, levels and commits of an episode."""
    before, after = (quantities.quantity(value, metric.unit) for value in (episode.before, episode.after))
    until = "" if episode.range_end == episode.commit else f"<br>until {commit_text(episode.range_end)}"
    return (
        f"<b>{episode.kind.value}</b> {quantities.change(episode.magnitude, episode.before)}"
        f"<br>{plain(before)} → {plain(after)}<br>{commit_text(episode.commit)}{until}"
    )


def roofline_text(point: RooflinePoint, label: str) -> str:
    """Latency, speed of light, throughput and bandwidth of a workload."""
    light = point.speed_of_light
    shares = ((light.of_peak, "peak"), (light.of_ceiling, "ceiling"))
    rate = quantities.throughput(point.flop_rate, point.workload.dtype)
    light_text = ", ".join(f"{quantities.share(share)} of {name}" for share, name in shares if share is not None)
    if light_text and light.of_ceiling is not None and point.gpu is not None:
        light_text += f" of {plain(gpu_name(point.gpu))}"
    return (
        f"{_workload_text(point, label)}{f', speed of light {light_text}' if light_text else ''}"
        f"<br>{rate} at {quantities.number(point.intensity)} FLOP/byte,"
        f" {quantities.quantity(point.bandwidth_bps, 'B/s')}<br>{commit_text(point.commit)}"
    )


def profiled_text(point: RooflinePoint, label: str) -> str:
    """DRAM bytes of a workload by a profiler, and its intensity."""
    profile = point.profile
    assert profile is not None
    assert profile.dram_bytes is not None
    times = quantities.ratio(profile.dram_bytes / point.workload.bytes)
    return (
        f"{_workload_text(point, label)}<br>DRAM moved {quantities.quantity(profile.dram_bytes, 'bytes')}, {times} the"
        f" least: {quantities.number(point.measured_intensity)} FLOP/byte<br>{plain(profile.profiler)} at"
        f" {profile.commit.hash[:8]}"
    )


def trail_text(point: RooflinePoint, label: str) -> str:
    """Latency at the beginning of a workload's trail, and now."""
    before = point.trail[0]
    return (
        f"<b>{plain(point.workload.operator)}</b> {plain(point.workload.name)}<br>"
        f"{plain(label)}, {len(point.trail) - 1} commits before: {quantities.latency(before)}, now"
        f" {quantities.latency(point.latency_s)} ({quantities.change(point.latency_s / before - 1)})"
    )


def _workload_text(point: RooflinePoint, label: str) -> str:
    return (
        f"<b>{plain(point.workload.operator)}</b> {plain(point.workload.name)}<br>"
        f"{plain(label)}: {quantities.latency(point.latency_s)}"
    )


def commit_text(commit: Commit, *, short: bool = False) -> str:
    """Hash and date; unless `short` also subject and author."""
    lines = [f"{commit.hash[:8]} · {commit.date:%Y-%m-%d %H:%M} UTC"]
    if short:
        return lines[0]
    if commit.subject:
        lines.append(plain(shortened(commit.subject, _SUBJECT)))
    if commit.author:
        lines.append(plain(commit.author))
    return "<br>".join(lines)
