"""An invalid warpwatch.toml: head's fails its check, and base's does not stop the fix."""

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
    "binary": (b"[gate]\nbench = '\xff\xfe'\n", "is not UTF-8"),
    "huge": ("#" * (2**20 + 1), "expected 1048576 at most"),
    "nested without end": ("a = " + "[" * 100_000, "is not TOML"),
    "a number of 5,000 digits": ("[gate]\nruns = " + "9" * 5000, "is not TOML"),
    "an invalid regular expression": ('[gate]\nbench = "("\n', "is not a regular expression"),
    "a repetition beyond bounds": ('[gate]\nbench = "a{99999999999}"\n', "is not a regular expression"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_invalid_policy_fails_the_check_of_head_and_the_fix_passes(kind: str, tmp_path: Path) -> None:
    content, message = BROKEN[kind]
    repository = judged_repository(
        tmp_path, database=f"sqlite:///{tmp_path / 'h.db'}", slower={}, policy="", head_policy=content
    )
    done = repository.check()
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("the policy cannot be used: demo ")
    assert "head's policy is invalid" in done.stdout
    assert message in done.stdout
    fix = repository.warpwatch("check", repository.head, repository.base)
    assert fix.returncode == 0, fix.stdout + fix.stderr
    assert "compared by the defaults, as base's policy is invalid" in fix.stdout


def _commit(folder: Path) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["add", "--all"], ["commit", "--quiet", "--allow-empty", "--message", "change"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: (path.mkdir(), (path / "x").write_text("")), "is a folder; expected a file"),
        (lambda path: path.symlink_to("nowhere"), "is a link to a missing file"),
        (lambda path: path.symlink_to("/etc/hostname"), "is a link out of the repository"),
        (lambda path: path.symlink_to(path.name), "is a link to itself"),
    ],
)
def test_a_folder_or_a_bad_link_is_an_invalid_policy(make: object, message: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    base = _commit(tmp_path)
    make(tmp_path / "warpwatch.toml")  # type: ignore[operator]
    head = _commit(tmp_path)
    committed = policy_at(tmp_path, base, head)
    assert committed.policy == Policy()
    assert committed.fault is not None
    assert message in committed.fault


def test_a_link_inside_the_repository_is_followed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "policy.toml").write_text("[gate]\nruns = 5\n")
    (tmp_path / "warpwatch.toml").symlink_to("ci/policy.toml")
    base, head = _commit(tmp_path), _commit(tmp_path)
    committed = policy_at(tmp_path, base, head)
    assert (committed.policy.gate.runs, committed.fault, committed.notes) == (5, None, ())


def test_valid_tables_of_an_invalid_file_count_for_alerts(tmp_path: Path) -> None:
    path = tmp_path / "warpwatch.toml"
    path.write_text("[gate]\nthresold = 1\n[alerts]\nrecent_days = 3.0\n")
    policy, fault = read_usable_policy(path)
    assert (policy.alerts.recent_days, policy.gate) == (3.0, Policy().gate)
    assert fault is not None
    assert "thresold" in fault
    path.write_text("[alerts\n")
    policy, fault = read_usable_policy(path)
    assert (policy, fault is not None) == (Policy(), True)


def test_a_number_that_python_cannot_print_is_reported() -> None:
    with pytest.raises(PolicyError, match="a number of thousands of digits"):
        parse_policy("[gate]\nruns = 0x" + "f" * 6000, "warpwatch.toml")
