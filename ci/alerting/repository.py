"""What the project's git repository tells of its main branch: which files it has, and what was committed since."""

from functools import cached_property
from pathlib import Path

from warpwatch.dashboard.importers.git_history import GitError, git

_CODEOWNERS = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")


class MainBranch:
    """HEAD of a repository, which may be bare. Without a repository nothing is known, and that is no error."""

    def __init__(self, repository: str | None) -> None:
        self._repository = Path(repository) if repository else None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The paths of all files."""
        return tuple(self._ask("ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0"))[:-1]

    def text(self, path: str) -> str | None:
        """A file's; None if there is no such file."""
        return self._ask("show", f"HEAD:{path}") if path in self.files else None

    def codeowners(self, path: str | None) -> str:
        """The text of CODEOWNERS at this path, else where forges look for it; empty where there is none."""
        places = (path,) if path is not None else _CODEOWNERS
        return next((text for place in places if (text := self.text(place)) is not None), "")

    def commits_since(self, commit: str) -> int | None:
        """How many commits of main a commit lacks; None where nobody can tell."""
        counted = self._ask("rev-list", "--count", f"{commit}..HEAD").strip()
        return int(counted) if counted else None

    def _ask(self, *arguments: str) -> str:
        if self._repository is None:
            return ""
        try:
            return git(self._repository, *arguments)
        except GitError:
            return ""
