"""Owners of a series, from the policy and the CODEOWNERS of the main branch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from codeowners import CodeOwners

from warpwatch.dashboard.importers.git import GitError, git
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.series import Series, Workloads
from warpwatch.dashboard.model.thresholds import LimitRule

from ..policy.policy_model import AlertsTable

_CODEOWNERS = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")


class MainBranch:
    """HEAD of a repository, which may be bare; empty without a repository."""

    def __init__(self, repository: str | None) -> None:
        self._repository = Path(repository) if repository else None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Paths of all files."""
        return tuple(self._ask("ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0"))[:-1]

    def text(self, path: str) -> str | None:
        """Content of a file; None if it does not exist."""
        return self._ask("show", f"HEAD:{path}") if path in self.files else None

    def codeowners(self, path: str | None) -> str:
        """Content of CODEOWNERS at the path, by default where forges look for it; empty if there is none."""
        places = (path,) if path is not None else _CODEOWNERS
        return next((text for place in places if (text := self.text(place)) is not None), "")

    def commits_since(self, commit: str) -> int | None:
        """Number of commits on main after a commit; None if unknown."""
        counted = self._ask("rev-list", "--count", f"{commit}..HEAD").strip()
        return int(counted) if counted else None

    def _ask(self, *arguments: str) -> str:
        if self._repository is None:
            return ""
        try:
            return git(self._repository, *arguments)
        except GitError:
            return ""


class Owners:
    """Owners of series and kernels, from the policy's rules and CODEOWNERS.

    The sources of a kernel are those of `[alerts.sources]`, else all files and folders with its name or the last part
    of its module: `kernels/csrc/rope/…` and `kernels/operators/rope.py` for `rope` and `benchmarks.rope`.
    """

    def __init__(self, policy: AlertsTable, main: MainBranch, rules: Sequence[LimitRule] = ()) -> None:
        self._sources, self._rules = policy.sources, rules
        self._main = main
        self._codeowners = CodeOwners(main.codeowners(policy.codeowners))
        self.of = cache(self._of)

    def owners_of_series(self, series: Iterable[Series], workloads: Workloads) -> tuple[str, ...]:
        """Owners of the series, those of the first series first. The last matching rule with `owners` counts."""
        found: dict[str, None] = {}
        for one in series:
            workload = workloads.get((one.suite, one.workload or ""))
            stated = [rule.owners for rule in self._rules if rule.owners is not None and rule.matches(one, workload)]
            found |= dict.fromkeys(stated[-1] if stated else self.of(kernel_of(one, workload)))
        return tuple(found)

    def _of(self, kernel: str) -> tuple[str, ...]:
        """Owners of a kernel, those of most files first."""
        counted = Counter(name for path in self._paths(kernel) for _, name in self._codeowners.of(path))
        return tuple(name for name, _ in counted.most_common())

    def _paths(self, kernel: str) -> Iterable[str]:
        named = [path for glob, paths in self._sources.items() if fnmatchcase(kernel, glob) for path in paths]
        if named:
            return [each.lstrip("/") + ("_" if each.endswith("/") else "") for each in named]
        name = kernel.rpartition(".")[2]
        return [path for path in self._main.files if name in _names(path)]


def _names(path: str) -> set[str]:
    """Names of the file, without suffix, and of its folders."""
    parts = PurePosixPath(path)
    return {parts.name.partition(".")[0], *parts.parts[:-1]}
