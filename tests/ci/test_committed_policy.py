"""What a repository states of its limits, and how it reaches the store: real repositories, the commands as they run."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.ci.judged_repository import JudgedRepository, judged_repository
from warpwatch.ci.policy.committed_policy import limits_stated_by, limits_stated_in
from warpwatch.ci.policy.policy_file import PolicyError
from warpwatch.dashboard.model.thresholds import StatedLimits
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import stated_limits

POLICY = """
[gate]
threshold = 0.03
[[rule]]
kernel = "rope*"
threshold = 0.1
owners = "ann@example.org"
[[rule]]
kernel = "sum"
owners = "bob@example.org"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> JudgedRepository:
    return judged_repository(tmp_path, database=f"sqlite:///{tmp_path / 'w.db'}", slower={}, policy=POLICY)


def _stated(checkout: JudgedRepository) -> StatedLimits | None:
    store = Store(checkout.database)
    found = stated_limits(store, "demo")
    store.close()
    return found


def test_the_newest_committed_file_counts_without_owners(checkout: JudgedRepository) -> None:
    (checkout.folder / "suite").mkdir()
    found = limits_stated_in(checkout.folder / "suite")
    assert found is not None
    assert (found.source, found.threshold) == ("warpwatch.toml", 0.03)
    assert [(rule.kernel, rule.threshold, rule.owners) for rule in found.rules] == [(("rope*",), 0.1, None)]
    first = subprocess.run(
        ["git", "rev-list", "--max-parents=0", "HEAD"], cwd=checkout.folder, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found.commit == first  # which wrote it, whatever came after
    (checkout.folder / "warpwatch.toml").write_text("[gate]\nthreshold = 0.5")
    assert limits_stated_in(checkout.folder) == found


def test_a_clone_that_is_too_shallow_for_the_last_change_is_refused(checkout: JudgedRepository, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", checkout.folder.as_uri(), str(shallow)], check=True)
    with pytest.raises(PolicyError, match="fetch-depth: 0"):
        limits_stated_in(shallow)
    subprocess.run(["git", "fetch", "-q", "--unshallow"], cwd=shallow, check=True)
    assert limits_stated_in(shallow) == limits_stated_in(checkout.folder)


def test_a_file_whose_path_the_store_refuses_is_named(checkout: JudgedRepository) -> None:
    folder = checkout.folder / " a folder"
    folder.mkdir()
    (folder / "warpwatch.toml").write_text(POLICY)
    subprocess.run(["git", "add", "."], cwd=checkout.folder, check=True)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "a folder"],
        cwd=checkout.folder,
        check=True,
    )
    with pytest.raises(PolicyError, match=r"a folder/warpwatch\.toml: the store cannot hold it"):
        limits_stated_in(folder)


def test_a_file_outside_of_a_repository_has_the_time_of_its_last_write(tmp_path: Path) -> None:
    assert limits_stated_in(tmp_path) is None
    path = tmp_path / "warpwatch.toml"
    path.write_text(POLICY)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    stated = limits_stated_by(path)
    assert (stated.commit, stated.committed.timestamp(), stated.name) == (None, 1_700_000_000, "warpwatch.toml")
    path.write_text("[gate]\nthreshhold = 1")
    with pytest.raises(PolicyError, match="did you mean threshold"):
        limits_stated_by(path)


def test_policy_keep_stores_the_thresholds_of_the_file(checkout: JudgedRepository) -> None:
    done = checkout.warpwatch("policy", "keep")
    assert done.returncode == 0, done.stderr
    stored = _stated(checkout)
    assert stored == limits_stated_in(checkout.folder)
    assert stored is not None
    assert done.stdout.strip() == f"demo uses {stored.name}: 1 rules"
    (checkout.folder / "older.toml").write_text("")
    os.utime(checkout.folder / "older.toml", (1, 1))
    older = checkout.warpwatch("policy", "keep", "older.toml")
    assert older.returncode == 1
    assert f"older.toml is not the newest: demo uses {stored.name}" in older.stderr
    assert _stated(checkout) == stored
    (checkout.folder / "wrong.toml").write_text("[gate")
    wrong = checkout.warpwatch("policy", "keep", "wrong.toml")
    assert (wrong.returncode, "is not TOML" in wrong.stderr) == (2, True)


def test_alerts_store_the_thresholds_and_a_dry_run_does_not(checkout: JudgedRepository) -> None:
    assert checkout.warpwatch("alert", "--dry-run").returncode == 0
    assert _stated(checkout) is None
    done = checkout.warpwatch("alert", "--to", "http://127.0.0.1:9/")
    assert done.returncode == 0, done.stderr
    assert _stated(checkout) == limits_stated_in(checkout.folder)
