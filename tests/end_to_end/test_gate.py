"""`warpwatch gate` on two commits of a real clone: built, measured in turns and judged; nothing is recorded before."""

import json

import pytest

from tests.end_to_end.planted_clone import ROPE, PlantedClone, planted_clone
from warpwatch.ci.gate.artefact import read_artefact
from warpwatch.dashboard.model.comparison import Outcome

# CPU latencies on a shared machine, as in test_commit_to_alert.py.
THRESHOLD = "0.5"

pytestmark = [pytest.mark.timing, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> PlantedClone:
    """Two commits of the same code, and one that is slower."""
    return planted_clone(tmp_path_factory, "gate", good=2, bad=1)


def _gate(clone: PlantedClone, base: str, head: str) -> tuple[int, dict, str]:
    done = clone.warpwatch(
        "gate",
        base,
        head,
        "--bench",
        ROPE,
        "--threshold",
        THRESHOLD,
        "--budget",
        "10",
        "--format",
        "json",
        "--artefact",
        "gate.json",
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_slowdown_is_reported_in_the_kernel_that_has_it(clone: PlantedClone) -> None:
    code, found, output = _gate(clone, clone.commits[1], clone.planted)
    assert code == 1, (found["rows"], output)
    regressed = [row for row in found["rows"] if row["verdict"] == "regressed"]
    assert {(row["series"]["benchmark"], row["series"]["implementation"]) for row in regressed} == {
        ("benchmarks.rope.Rope.track_latency", "warpwatch")
    }
    for row in regressed:
        assert row["estimate"]["change"] > 1.0
        assert row["estimate"]["base_runs"] == row["estimate"]["head_runs"] >= 2
    assert "2 runs of each" in output
    accepted = clone.warpwatch("policy", "accept", clone.commits[1], clone.planted, "rope", "32 times over, as planted")
    assert accepted.returncode == 0, accepted.stderr
    done = clone.warpwatch("check", clone.commits[1], clone.planted, "--threshold", THRESHOLD)
    assert done.returncode in (0, 2), done.stdout  # a machine with other work may leave the rest inconclusive
    assert "32 times over, as planted" in done.stdout
    artefact = read_artefact(clone.folder / "gate.json")
    assert (artefact.outcome, artefact.head.hash) == (Outcome.REGRESSED, clone.planted)
    assert {row.source.path for row in artefact.rows if row.source} == {"perf_suite/benchmarks/rope.py"}
    found = clone.warpwatch("forge", "report-gate", "gate.json", "--to", "comment")
    assert found.stdout.startswith("### warpwatch: regressed\n\n`benchmarks.rope.Rope.track_latency(")


def test_equal_code_is_not_accused(clone: PlantedClone) -> None:
    code, artefact, output = _gate(clone, clone.commits[0], clone.commits[1])
    assert code in (0, 2), output  # a machine with other work may remain inconclusive
    assert {row["verdict"] for row in artefact["rows"]} <= {"unchanged", "inconclusive"}, artefact["rows"]
