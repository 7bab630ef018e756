"""The gate's own warpwatch and the Python that runs asv may be two installations."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from warpwatch.ci.asv_checkout import AsvRuns, GateError
from warpwatch.ci.gate.gate_command import gate
from warpwatch.dashboard.store import Store


def test_asv_runs_under_the_python_that_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "asked for $@"\nexit 3\n')
    python.chmod(0o755)
    store = Store(f"sqlite:///{tmp_path / 'store.db'}")
    with pytest.raises(GateError, match=r"ended with 3:\nasked for -m asv run --record-samples b+\^!"):
        AsvRuns(folder=tmp_path, store=store, project="demo", python=str(python)).run("b" * 40)
    store.close()


def test_a_workflow_names_it_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_ASV_PYTHON", "/opt/torch/bin/python")
    context = gate.make_context("gate", ["main", "HEAD"])
    assert context.params["asv_python"] == "/opt/torch/bin/python"
    assert "WARPWATCH_ASV_PYTHON" in CliRunner().invoke(gate, ["--help"]).output
