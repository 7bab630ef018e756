"""What has a number at base and none at head keeps a change from being merged; a person may accept that it is gone."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.ci.judged_repository import JudgedRepository, judged_repository

ROPE, SUM = ("rope.Rope.track_latency", "fp16"), ("sum.Sum.track_latency", "fp16")


def _repository(
    root: Path, broken: Mapping[tuple[str, str], float | None], policy: str | None = None
) -> JudgedRepository:
    return judged_repository(root, database=f"sqlite:///{root / 'h.db'}", slower={}, broken=broken, policy=policy)


@pytest.mark.parametrize(("left", "verdict"), [(None, "invalid"), (math.nan, "missing")])
def test_a_benchmark_that_fails_at_head_fails_the_check_by_name(
    left: float | None, verdict: str, tmp_path: Path
) -> None:
    done = _repository(tmp_path, {ROPE: left, SUM: left}).check()
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("2 benchmarks fail at head: demo ")
    assert f"{verdict}       rope.Rope.track_latency(fp16)" in done.stdout


def test_a_benchmark_that_was_not_selected_does_not_fail(tmp_path: Path) -> None:
    repository = _repository(tmp_path, {})
    path = next((tmp_path / "results" / "box").glob(f"{repository.head[:8]}-*.json"))
    data = json.loads(path.read_text())
    del data["results"]["sum.Sum.track_latency"]
    path.write_text(json.dumps(data))
    (tmp_path / "h.db").unlink()
    done = repository.warpwatch("import", str(tmp_path / "results"), "--project", "demo")
    assert done.returncode == 0, done.stderr
    rows = {row["series"]["benchmark"]: row for row in json.loads(repository.check("--format", "json").stdout)["rows"]}
    assert (rows[SUM[0]]["verdict"], rows[SUM[0]]["fails"]) == ("missing", False)
    assert repository.check().returncode == 0


def test_a_person_accepts_that_a_benchmark_is_gone(tmp_path: Path) -> None:
    repository = _repository(tmp_path, {ROPE: math.nan})
    assert (
        repository.warpwatch(
            "policy", "accept", repository.base, repository.head, "rope", "nobody", "calls it"
        ).returncode
        == 0
    )
    done = repository.check()
    assert done.returncode == 0, done.stdout
    assert "nobody calls it" in done.stdout


def test_a_failure_cannot_be_accepted(tmp_path: Path) -> None:
    repository = _repository(tmp_path, {ROPE: None})
    assert (
        repository.warpwatch("policy", "accept", repository.base, repository.head, "*", "it", "is", "fine").returncode
        == 0
    )
    done = repository.check()
    assert done.returncode == 1, done.stdout
    assert "which cannot be accepted" in done.stdout


def test_a_non_blocking_failure_is_reported_and_does_not_fail(tmp_path: Path) -> None:
    done = _repository(tmp_path, {ROPE: None}, '[[rule]]\nkernel = "rope"\nblocks = false\n').check()
    assert done.returncode == 0, done.stdout
    assert "1 invalid (1 not blocking)" in done.stdout
