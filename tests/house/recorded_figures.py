"""Figures of a document, taken from the recorded run that it names: `python -m tests.house.recorded_figures FILE...`.

A document says "recorded at commit `a8212b4c`" once. A figure stands in front of a comment that a reader of the page
does not see, which says what it is; the command writes it anew, and test_recorded_figures.py holds it to the run.

    1.02×<!-- speed decode_attention/cuda-fp16-b8-h32-kv8-s1x4096-d128 sdpa -->

| it says | and stands for |
|---|---|
| speed OPERATOR/WORKLOAD BASELINE | latency of the baseline over that of our kernel |
| gain OPERATOR/WORKLOAD OPERATOR/WORKLOAD | latency of our first kernel over that of our second |
| us OPERATOR/WORKLOAD IMPLEMENTATION | microseconds of a call |
| share OPERATOR/WORKLOAD IMPLEMENTATION | share of speed of light, by the data sheet's ceilings |
| replay OPERATOR/WORKLOAD BASELINE | as speed, both as replays of a CUDA graph |
| memory OPERATOR/WORKLOAD BASELINE | our peak memory over inputs and output, over that of the baseline |
| l1, l2, dram OPERATOR/WORKLOAD IMPLEMENTATION | bytes through that memory while profiled |
| tensor, occupancy OPERATOR/WORKLOAD IMPLEMENTATION | share of cycles, of warps, of the longest kernel profiled |

What the run does not have is "–". Profiles are in it if `warpbench profile ROW --into ITS.context.jsonl` put
them there.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

HOUSE = Path(__file__).resolve().parents[2]
RESULTS = HOUSE / "perf_suite/results"
NAMED = re.compile(r"recorded at commit `(\w{8})`")
CELL = re.compile(r"(?P<figure>[\d.]+(?:×| %| µs| MB)?|–)<!-- (?P<kind>\w+) (?P<first>[\w/-]+) (?P<second>[\w/-]+) -->")
NOT_RECORDED = "–"
_OF_A_PROFILE = {
    "l1": "l1_bytes",
    "l2": "l2_bytes",
    "dram": "dram_bytes",
    "tensor": "tensor_pipe",
    "occupancy": "occupancy",
}


class Recorded:
    """A run's measurements, workloads and data sheet's ceilings."""

    def __init__(self, commit: str) -> None:
        (context,) = RESULTS.glob(f"*/{commit}-*.context.jsonl")
        self._measured: dict[tuple[str, str], dict[str, Any]] = {}
        self._profiles: dict[tuple[str, str], dict[str, Any]] = {}
        self._workloads: dict[str, dict[str, Any]] = {}
        self._ceilings: dict[str, Any] | None = None
        for line in context.read_text().splitlines():
            record = json.loads(line)
            if record["record"] == "measurement" and record["status"] == "ok":
                self._measured[_row(record), record["implementation"]] = record
            elif record["record"] == "profile":
                self._profiles[_row(record), record["implementation"]] = record
            elif record["record"] == "workload":
                self._workloads[_row(record)] = record
            elif record["record"] == "run":
                self._ceilings = record["ceilings"] or self._ceilings

    def figure(self, kind: str, first: str, second: str) -> str:
        """The figure that the comment names, in the document's form. Raises ValueError for a kind that there is not."""
        ours = self._measured.get((first, "warpwatch"))
        if kind == "speed":
            return _ratio(self._measured.get((first, second)), ours, "latency_s")
        if kind == "replay":
            return _ratio(self._measured.get((first, second)), ours, "warm_latency_s")
        if kind == "gain":
            return _ratio(ours, self._measured.get((second, "warpwatch")), "latency_s")
        if kind == "memory":
            return _share(ours, self._measured.get((first, second)), "peak_memory_bytes")
        if kind == "us":
            found = self._measured.get((first, second))
            return NOT_RECORDED if found is None else f"{_three_figures(found['latency_s'] * 1e6)} µs"
        if kind == "share":
            return self._share(first, second)
        if kind in _OF_A_PROFILE:
            return self._profiled(_OF_A_PROFILE[kind], first, second)
        known = "speed, replay, gain, us, share, memory"
        raise ValueError(f"no kind of figure {kind!r}; there are {known}, {', '.join(_OF_A_PROFILE)}")

    def _share(self, row: str, implementation: str) -> str:
        found, workload = self._measured.get((row, implementation)), self._workloads.get(row)
        if found is None or workload is None or self._ceilings is None:
            return NOT_RECORDED
        seconds = max(
            workload["bytes"] / self._ceilings["bandwidth_bps"],
            workload["flops"] / self._ceilings["flops"][workload["dtype"]],
        )
        return f"{100 * seconds / found['latency_s']:.0f} %"

    def _profiled(self, field: str, row: str, implementation: str) -> str:
        profile = self._profiles.get((row, implementation))
        values = [] if profile is None else [kernel[field] for kernel in profile["kernels"]]
        if profile is None or None in values:
            return NOT_RECORDED
        if field.endswith("_bytes"):
            return f"{sum(values) / 1e6:.0f} MB"
        longest = max(profile["kernels"], key=lambda kernel: kernel["duration_s"])
        return f"{100 * longest[field]:.0f} %"


def _three_figures(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def _share(part: dict[str, Any] | None, whole: dict[str, Any] | None, field: str) -> str:
    if part is None or whole is None or not whole[field]:
        return NOT_RECORDED
    return f"{_three_figures(100 * part[field] / whole[field])} %"


def commit_named(text: str) -> str:
    """The commit of the run that a document names. Raises ValueError if it names none, or several."""
    named = set(NAMED.findall(text))
    if len(named) != 1:
        raise ValueError(f"wanted one 'recorded at commit `…`', found {len(named)}")
    return named.pop()


def with_figures(text: str) -> str:
    """The document with every figure as recorded."""
    run = Recorded(commit_named(text))

    def cell(found: re.Match[str]) -> str:
        kind, first, second = found["kind"], found["first"], found["second"]
        return f"{run.figure(kind, first, second)}<!-- {kind} {first} {second} -->"

    return CELL.sub(cell, text)


def _row(record: dict[str, Any]) -> str:
    """ "rope/cuda-fp16-…" of a record of "benchmarks.rope.Rope"."""
    return f"{record['benchmark'].split('.')[1]}/{record['workload']}"


def _ratio(numerator: dict[str, Any] | None, denominator: dict[str, Any] | None, field: str) -> str:
    if numerator is None or denominator is None or not denominator[field]:
        return NOT_RECORDED
    return f"{numerator[field] / denominator[field]:.2f}×"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        document = Path(name)
        document.write_text(with_figures(document.read_text()))
