"""Every figure of the README's table is that of the recorded run it names."""

import json
import re
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(?P<workload>cuda-[\w-]+)` \| (?P<cells>.+) \|$", re.MULTILINE)


def _latencies(commit: str) -> dict[tuple[str, str], float]:
    (context,) = (HOUSE / "perf_suite/results/nvidia-h200").glob(f"{commit}-*.context.jsonl")
    records = [json.loads(line) for line in context.read_text().splitlines()]
    return {
        (record["workload"], record["implementation"]): record["latency_s"]
        for record in records
        if record["record"] == "measurement" and record["status"] == "ok"
    }


def test_the_table_shows_what_was_recorded() -> None:
    readme = (HOUSE / "README.md").read_text()
    named = re.search(r"recorded at commit `(\w{8})`", readme)
    assert named, "the README no longer says at which commit its table was recorded"
    recorded = _latencies(named[1])
    rows = list(ROW.finditer(readme))
    assert len(rows) >= 6
    for row in rows:
        ours, twin, rival, ratio = (cell.strip() for cell in row["cells"].split("|"))
        name, rival_us = re.fullmatch(r"([\w.]+) ([\d.]+)", rival).groups()
        implementation = {"SDPA": "sdpa", "cuBLAS": "cublas", "torch.compile": "torch_compile"}[name]
        shown = {"warpwatch": float(ours), "triton": float(twin), implementation: float(rival_us)}
        for key, microseconds in shown.items():
            assert microseconds == pytest.approx(recorded[row["workload"], key] * 1e6, rel=0.006), (row[0], key)
        expected = recorded[row["workload"], implementation] / recorded[row["workload"], "warpwatch"]
        assert float(ratio.removesuffix("×")) == pytest.approx(expected, abs=0.006), row[0]  # two decimals
