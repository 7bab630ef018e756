"""A measurement whose import fails between two commits: it says so, and leaves nothing running."""

from pathlib import Path

import pytest

from warpwatch.ci.make_run.measuring import LOG, Measuring
from warpwatch.ci.make_run.terminal import Terminal
from warpwatch.dashboard.measurement import Current, Measurement

RECORDED = Path(__file__).parent / "recorded" / "asv_two_commits.txt"
# Two commits' worth of asv's output, and then it would go on for ten minutes.
_MAKEFILE = f"setup:\nmeasure: ; @echo $$$$ > pid; cat {RECORDED}; exec sleep 600\n"


def test_an_import_that_fails_ends_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Makefile").write_text(_MAKEFILE)  # and no results at all
    current = Current(project="warpwatch", now=Measurement(state="running"))
    measuring = Measuring(["make"], 2, current, Terminal())
    measuring.run()
    assert (current.now.state, measuring.exit_status) == ("failed", 1)
    assert current.now.problem == f"importing the results ended with status 1; see {LOG}"
    assert "no result file" in LOG.read_text()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert f"Failed: {current.now.problem}" in capsys.readouterr().out
