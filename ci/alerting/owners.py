"""Who answers for a series: whom a `[[rule]]` names for it, else the owners that CODEOWNERS names for its kernel."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath

from codeowners import CodeOwners

from warpwatch.ci.alerting.repository import MainBranch
from warpwatch.ci.policy.alerts import AlertsTable
from warpwatch.dashboard.limit_rules.rule import LimitRule
from warpwatch.dashboard.limit_rules.series_limits import Workloads
from warpwatch.dashboard.naming import kernel_of
from warpwatch.dashboard.store.records import Series


class Owners:
    """Owners by series, and by kernel. A kernel's sources are those that `[alerts.sources]` names, else all files and
    folders that are called like it, or like the last part of its module: `kernels/csrc/rope/…` and
    `kernels/operators/rope.py` of `rope`, and of `benchmarks.rope`."""

    def __init__(self, policy: AlertsTable, main: MainBranch, rules: Sequence[LimitRule] = ()) -> None:
        self._sources, self._rules = policy.sources, rules
        self._main = main
        self._codeowners = CodeOwners(main.codeowners(policy.codeowners))
        self.of = cache(self._of)

    def answering(self, series: Iterable[Series], workloads: Workloads) -> tuple[str, ...]:
        """Of all the series together, the first one's first. The last rule that matches one and states owners counts,
        be it that nobody answers."""
        found: dict[str, None] = {}
        for one in series:
            workload = workloads.get((one.suite, one.workload or ""))
            stated = [rule.owners for rule in self._rules if rule.owners is not None and rule.matches(one, workload)]
            found |= dict.fromkeys(stated[-1] if stated else self.of(kernel_of(one, workload)))
        return tuple(found)

    def _of(self, kernel: str) -> tuple[str, ...]:
        """Of a kernel: those of most files first."""
        counted = Counter(name for path in self._paths(kernel) for _, name in self._codeowners.of(path))
        return tuple(name for name, _ in counted.most_common())

    def _paths(self, kernel: str) -> Iterable[str]:
        named = [path for glob, paths in self._sources.items() if fnmatchcase(kernel, glob) for path in paths]
        if named:
            return [each.lstrip("/") + ("_" if each.endswith("/") else "") for each in named]
        name = kernel.rpartition(".")[2]
        return [path for path in self._main.files if name in _names(path)]


def _names(path: str) -> set[str]:
    """What the file and its folders are called, without a suffix."""
    its = PurePosixPath(path)
    return {its.name.partition(".")[0], *its.parts[:-1]}
