"""One scan of a project: what it reads, owners of its series, and how every kind of alert is reported."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from codeowners import CodeOwners

from warpwatch.dashboard.importers.git import GitError, git
from warpwatch.dashboard.model.alert import Alert
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.series import Project, Series, Workloads
from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.settings import DEFAULT_THRESHOLD
from warpwatch.dashboard.store import Store, queries

from ..policy.policy_model import AlertsTable
from .alert_content import Action, Content, Message, compose
from .outbox_sender import RoutingFacts, destinations

_CODEOWNERS = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")


class MainBranch:
    """HEAD of a repository, which may be bare; empty without a repository."""

    def __init__(self, repository: str | None) -> None:
        self._repository = Path(repository) if repository else None

    @cached_property
    def files(self) -> tuple[str, ...]:
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


@dataclass(slots=True)
class ScanResult:
    """Messages that a scan queued, or would have queued in a dry run."""

    counted: Counter[str] = field(default_factory=Counter)  # by Action
    messages: list[Message] = field(default_factory=list)
    unrouted: list[str] = field(default_factory=list)  # titles of new alerts that no route matches

    def add(self, message: Message) -> None:
        self.counted[message.action] += 1
        self.messages.append(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan under way."""

    store: Store
    project: Project
    policy: AlertsTable
    given: tuple[str, ...]  # addresses of the command line
    main: MainBranch
    owners: Owners
    workloads: Workloads
    threshold: float  # of changes, in projects that state none
    now: datetime
    dry_run: bool
    result: ScanResult = field(default_factory=ScanResult)

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, as in the store."""
        return int(self.now.timestamp() * 1000)

    def owners_of(self, series: Iterable[Series]) -> tuple[str, ...]:
        """Owners of the series, those of the first one first."""
        return self.owners.owners_of_series(series, self.workloads)

    def destinations(self, kind: str, machine: str, kernels: Iterable[str], owners: Sequence[str]) -> tuple[str, ...]:
        """Names of the destinations that routes select."""
        matter = RoutingFacts(kind=kind, machine=machine, kernels=tuple(kernels), owners=owners)
        return destinations(matter, self.policy, self.given)

    def report_new(
        self, content: Content, *, thread: str, to: Sequence[str], write: Callable[[Mapping[str, str]], bool]
    ) -> None:
        """Queues the first message of an alert.

        `write` opens the alert with the messages (destination -> payload); False if another process was first.
        """
        message = compose(content, thread=thread, number=1, action=Action.OPENED)
        if not self.dry_run and not write(dict.fromkeys(to, message.as_json())):
            return
        self.result.add(message)
        if not to:
            self.result.unrouted.append(message.title)

    def report_update(
        self,
        alert: Alert,
        content: Content | None,
        action: Action,
        *,
        to: Sequence[str],
        write: Callable[[Mapping[str, str]], bool],
    ) -> None:
        """Queues the next message of an alert; without content the update is written, and nothing is sent.

        `write` updates the alert with the messages (destination -> payload); False if somebody changed it meanwhile:
        then the next scan updates it.
        """
        message = None
        if content is not None:
            message = compose(content, thread=alert.thread, number=alert.messages + 1, action=action)
        if not self.dry_run and not write(dict.fromkeys(to, message.as_json()) if message is not None else {}):
            return
        if message is not None:
            self.result.add(message)


def new_scan(
    store: Store,
    project: Project,
    policy: AlertsTable,
    given: Sequence[str],
    *,
    rules: Sequence[LimitRule] = (),
    threshold: float = DEFAULT_THRESHOLD,
    now: datetime | None = None,
    dry_run: bool = False,
) -> Scan:
    """A scan of the project as it is now; `rules` state the owners of series."""
    main = MainBranch(project.repository)
    return Scan(
        store=store,
        project=project,
        policy=policy,
        given=tuple(given),
        main=main,
        owners=Owners(policy, main, rules),
        workloads=queries.project_workloads(store, project.name),
        threshold=threshold,
        now=now or datetime.now(UTC),
        dry_run=dry_run,
    )
