"""An artefact that would be too large: what says least is left out first, and verdict and counts stay."""

from pathlib import Path
from typing import Any

import pytest

from tests.ci.reports.examples import REGISTERS, artefact, row, series
from warpwatch.ci.gate.artefact import ArtefactRow, GateArtefact, read_artefact
from warpwatch.ci.gate.artefact_builder import write_artefact
from warpwatch.ci.reports.comment import conclusion
from warpwatch.ci.reports.gate_labels import title
from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.model.verdict import Verdict

LONG: dict[str, Any] = {"series": series("0" * 16, environment="e" * 1000), "reason": "é" * 1000}


def _rows(verdict: Verdict, count: int, start: int = 0, **other: Any) -> tuple[ArtefactRow, ...]:
    one = row(1, verdict, **{**LONG, **other})
    keys = (f"{start + number:016x}" for number in range(count))
    return tuple(one.model_copy(update={"series": one.series.model_copy(update={"key": key})}) for key in keys)


def _written(result: GateArtefact, folder: Path) -> GateArtefact:
    write_artefact(result, folder / "gate.json")
    return read_artefact(folder / "gate.json")


def test_unchanged_and_missing_rows_go_first(tmp_path: Path) -> None:
    rows = (
        *_rows(Verdict.REGRESSED, 5),
        *_rows(Verdict.INCONCLUSIVE, 20, 100),
        *_rows(Verdict.IMPROVED, 10, 200),
        *_rows(Verdict.UNCHANGED, 2000, 1000),
        *_rows(Verdict.MISSING, 2000, 5000, base=None),
    )
    result = _written(artefact(*rows), tmp_path)
    for verdict, count in ((Verdict.REGRESSED, 5), (Verdict.INCONCLUSIVE, 20), (Verdict.IMPROVED, 10)):
        assert sum(row.verdict is verdict for row in result.rows) == count
    assert len(result.rows) + result.rows_left_out == len(rows)
    assert (result.count(Verdict.UNCHANGED), result.count(Verdict.MISSING)) == (2000, 2000)
    assert result.outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Verdict.INCONCLUSIVE, "neutral"),
        (Verdict.IMPROVED, "success"),
        (Verdict.REGRESSED, "failure"),
        (Verdict.INVALID, "failure"),
        (Verdict.UNCHANGED, "success"),
    ],
)
def test_the_verdict_is_that_of_all_rows_whatever_is_left_out(verdict: Verdict, outcome: str, tmp_path: Path) -> None:
    before = artefact(*_rows(verdict, 5000))
    result = _written(before, tmp_path)
    assert (result.outcome, conclusion(result), result.count(verdict)) == (before.outcome, outcome, 5000)
    assert 0 < len(result.rows) < 5000
    assert verdict is Verdict.INVALID or "5000 " in title(result).replace(",", "")


def test_rows_left_out_cannot_be_accepted(tmp_path: Path) -> None:
    result = _written(artefact(*_rows(Verdict.REGRESSED, 5000)), tmp_path)
    assert result.model_copy(update={"rows": result.rows[:1]}).is_blocking


def test_compiled_code_goes_before_rows_that_moved(tmp_path: Path) -> None:
    code = REGISTERS.model_copy(
        update={"kernel": "é" * 1000, "facts": REGISTERS.facts[:1] * 32, "instructions": REGISTERS.facts[:1] * 32}
    )
    long = code.model_copy(update={"facts": tuple(fact.model_copy(update={"name": "é" * 200}) for fact in code.facts)})
    result = _written(artefact(*_rows(Verdict.REGRESSED, 1000), code=(long,) * 500), tmp_path)
    assert (len(result.rows), len(result.code) + result.code_left_out) == (1000, 500)
    assert result.code_left_out > 0
