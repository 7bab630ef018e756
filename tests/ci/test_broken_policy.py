"""A warpwatch.toml that cannot be used: head's keeps a change from being merged, and base's does not stop its mend."""

import subprocess
from pathlib import Path

import pytest

from tests.ci.judged_repository import judged_repository
from warpwatch.ci.policy.committed_policy import policy_at
from warpwatch.ci.policy.policy_file import PolicyError, parse_policy, read_usable_policy
from warpwatch.ci.policy.policy_model import Policy

BROKEN: dict[str, tuple[str | bytes, str]] = {
    "syntax": ("gate = [", "is not TOML"),
    "an unknown key": ("[gate]\nthresold = 1\n", "[gate] has no key thresold; did you mean threshold?"),
    "a wrong type": ("gate = 3\n", "[gate] input should be"),
    "a key twice": ("[gate]\nruns = 3\nruns = 4\n", "is not TOML"),
    "binary": (b"[gate]\nbench = '\xff\xfe'\n", "is no text in UTF-8"),
    "huge": ("#" * (2**20 + 1), "wanted 1048576 at most"),
    "nested without end": ("a = " + "[" * 100_000, "is not TOML"),
    "a number of 5,000 digits": ("[gate]\nruns = " + "9" * 5000, "is not TOML"),
    "a regular expression that is none": ('[gate]\nbench = "("\n', "is no regular expression"),
    "a repetition beyond all bounds": ('[gate]\nbench = "a{99999999999}"\n', "is no regular expression"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_policy_that_head_breaks_fails_its_own_check_and_its_mend_passes(kind: str, tmp_path: Path) -> None:
    content, said = BROKEN[kind]
    repository = judged_repository(
        tmp_path, database=f"sqlite:///{tmp_path / 'h.db'}", slower={}, policy="", head_policy=content
    )
    done = repository.check()
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("the policy cannot be used: demo ")
    assert "head's policy cannot be used" in done.stdout
    assert said in done.stdout
    mend = repository.warpwatch("check", repository.head, repository.base)
    assert mend.returncode == 0, mend.stdout + mend.stderr
    assert "judged by the defaults, as base's policy cannot be used" in mend.stdout


def _commit(folder: Path) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["add", "--all"], ["commit", "--quiet", "--allow-empty", "--message", "change"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: (path.mkdir(), (path / "x").write_text("")), "is a folder; wanted a file"),
        (lambda path: path.symlink_to("nowhere"), "is a link to a missing file"),
        (lambda path: path.symlink_to("/etc/hostname"), "is a link out of the repository"),
        (lambda path: path.symlink_to(path.name), "is a link to itself"),
    ],
)
def test_what_is_no_file_cannot_be_used(make: object, said: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    base = _commit(tmp_path)
    make(tmp_path / "warpwatch.toml")  # type: ignore[operator]
    head = _commit(tmp_path)
    found = policy_at(tmp_path, base, head)
    assert found.policy == Policy()
    assert found.fault is not None
    assert said in found.fault


def test_a_link_inside_the_repository_is_followed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "policy.toml").write_text("[gate]\nruns = 5\n")
    (tmp_path / "warpwatch.toml").symlink_to("ci/policy.toml")
    base, head = _commit(tmp_path), _commit(tmp_path)
    found = policy_at(tmp_path, base, head)
    assert (found.policy.gate.runs, found.fault, found.notes) == (5, None, ())


def test_the_tables_without_a_fault_count_for_alerts(tmp_path: Path) -> None:
    path = tmp_path / "warpwatch.toml"
    path.write_text("[gate]\nthresold = 1\n[alerts]\nrecent_days = 3.0\n")
    policy, fault = read_usable_policy(path)
    assert (policy.alerts.recent_days, policy.gate) == (3.0, Policy().gate)
    assert fault is not None
    assert "thresold" in fault
    path.write_text("[alerts\n")
    policy, fault = read_usable_policy(path)
    assert (policy, fault is not None) == (Policy(), True)


def test_a_number_that_python_would_not_print_is_told() -> None:
    with pytest.raises(PolicyError, match="a number of thousands of digits"):
        parse_policy("[gate]\nruns = 0x" + "f" * 6000, "warpwatch.toml")
