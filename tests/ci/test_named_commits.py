"""Which commit a name means: a branch or a tag before a shortened hash, as in git."""

from pathlib import Path

import pytest

from tests.ci.judged_repository import QUIET, JudgedRepository, git, judged_repository
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app


@pytest.fixture
def repository(tmp_path: Path) -> JudgedRepository:
    """A recorded history with a branch and a tag called like the first digits of other recorded commits."""
    made = judged_repository(tmp_path, database=str(tmp_path / "history.db"), slower={})
    recorded = git(made.folder, "log", "--format=%H").split()
    assert len(recorded) == len(QUIET)
    for name in _misleading_names(recorded):
        git(made.folder, "branch", name, made.head)
    return made


def _misleading_names(recorded: list[str]) -> list[str]:
    """For each length one prefix of exactly one recorded commit, which is not the head."""
    names = {}
    for commit in recorded[1:]:
        for length in (1, 2, 4, 7):
            if sum(other.startswith(commit[:length]) for other in recorded) == 1:
                names.setdefault(length, commit[:length])
    return list(names.values())


def test_a_branch_named_like_a_hash_is_the_branch(repository: JudgedRepository) -> None:
    names = git(repository.folder, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    misleading = [name for name in names if name not in {"main", "master"}]
    assert {len(name) for name in misleading} >= {2, 4, 7}
    for name in misleading:
        done = repository.warpwatch("check", repository.base, name)
        assert f"→ {repository.head[:8]}" in done.stdout, name
        page = _client(repository).get(f"/demo/compare?base={repository.base}&head={name}")
        assert page.headers["Location"].endswith(f"head={repository.head}"), name


def test_fewer_than_seven_digits_are_no_hash_where_no_repository_resolves_them(
    repository: JudgedRepository, tmp_path: Path
) -> None:
    repository.folder.rename(tmp_path / "elsewhere")
    (repository.folder).mkdir()
    short = repository.warpwatch("check", repository.base[:6], repository.head)
    assert short.returncode == 2
    assert "Give a branch, a tag, or at least 7 digits of a hash" in short.stderr
    assert repository.warpwatch("check", repository.base[:7], repository.head[:7]).returncode == 0


def _client(repository: JudgedRepository):  # type: ignore[no-untyped-def]  # Flask's test client
    return create_app(Settings(database=repository.database)).test_client()
