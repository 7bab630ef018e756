"""The policy in a commit: the newest for pages, base's for a comparison of two commits, with its acceptances."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from warpwatch.dashboard.cli.store_access import CannotTellError
from warpwatch.dashboard.importers.git import GitError, file_at, git, resolve, root_of
from warpwatch.dashboard.model.comparison import Acceptance, Comparison
from warpwatch.dashboard.model.thresholds import LimitsOf, StatedLimits, series_limits
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import ExpiredAcceptance, expired_acceptances

from ..acceptance import acceptances_between, printable, with_acceptances
from .policy_file import FILE_NAME, LARGEST_FILE, PolicyError, find_policy, parse_policy, read_policy
from .policy_model import Policy

# Two commits are compared by the file of base, so that no change loosens its own thresholds.
#
# Head's file is validated too: an invalid file would stop every later comparison, so it must not be merged.


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPolicy:
    policy: Policy
    name: str | None  # of the file; None: no usable file, so these are the defaults
    notes: tuple[str, ...] = ()
    fault: str | None = None  # the error in head's file


def policy_at(folder: Path, base: str, head: str) -> CommittedPolicy:
    """The policy of base (a full hash) for `folder`, from a file in it or above; the working tree's if git has no base.

    If base's file is invalid, the defaults count, by which every regression blocks. Raises PolicyError for an invalid
    file in the working tree.
    """
    root = root_of(folder)
    if root is None or resolve(root, base) is None:
        path = find_policy(folder)
        return CommittedPolicy(policy=read_policy(path), name=str(path) if path else None)
    at_base, at_head = (_CommittedFile.nearest(root, folder, commit) for commit in (base, head))
    notes, fault, policy, name = [], None, Policy(), None
    if at_head is not None and (at_base is None or at_head.content != at_base.content):
        notes.append(f"head changes {FILE_NAME}, which counts for later commits; use --policy to apply it now")
    if at_base is not None:
        try:
            policy, name = at_base.policy(), at_base.name
        except PolicyError as error:
            notes.append(f"compared by the defaults, as base's policy is invalid: {_one_line(error)}")
    if at_head is not None:
        try:
            at_head.policy()
        except PolicyError as error:
            fault = f"head's policy is invalid: {_one_line(error)}"
    return CommittedPolicy(policy=policy, name=name, notes=tuple(notes), fault=fault)


def policy_in(path: Path) -> CommittedPolicy:
    """The policy of an existing file. Raises PolicyError."""
    return CommittedPolicy(policy=read_policy(path), name=str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittedFile:
    name: str
    content: bytes | GitError  # or why it is not a file

    @staticmethod
    def nearest(root: Path, folder: Path, commit: str) -> "_CommittedFile | None":
        relative = folder.resolve().relative_to(root.resolve())
        for parent in (relative, *relative.parents):
            path = (parent / FILE_NAME).as_posix()
            try:
                content = file_at(root, commit, path, most=LARGEST_FILE)
            except GitError as error:
                return _CommittedFile(name=f"{path} of {commit[:8]}", content=error)
            if content is not None:
                return _CommittedFile(name=f"{path} of {commit[:8]}", content=content)
        return None

    def policy(self) -> Policy:
        """Raises PolicyError."""
        if isinstance(self.content, GitError):
            raise PolicyError(str(self.content)) from self.content
        return parse_policy(self.content, self.name)


def _one_line(error: PolicyError) -> str:
    return printable("; ".join(str(error).splitlines()))


# The thresholds for pages are those of the newest commit's file, not of the working tree: local experiments change no
# page, and of two commits the newer one counts.


def limits_stated_in(folder: Path) -> StatedLimits | None:
    """The limits of the file in the folder or above it; None without a file. Raises PolicyError."""
    path = find_policy(folder)
    return limits_stated_by(path) if path is not None else None


def limits_stated_by(path: Path) -> StatedLimits:
    """The limits of the file at a path: of its repository's HEAD, else of the file itself. Raises PolicyError."""
    path = path.resolve()
    root = root_of(path.parent)
    relative = path.relative_to(root.resolve()).as_posix() if root is not None else path.name
    try:
        content = file_at(root, "HEAD", relative, most=LARGEST_FILE) if root is not None else None
    except GitError as error:
        raise PolicyError(str(error)) from error
    if root is not None and content is not None:
        commit, committed = _last_change(root, relative)
        rules = parse_policy(content, f"{relative} of {commit[:8]}").limits
    else:
        rules, commit, committed = read_policy(path).limits, None, datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        return StatedLimits(**dict(rules), source=relative, commit=commit, committed=committed)
    except ValidationError as error:
        raise PolicyError(f"{relative}: the store cannot hold it: {error.errors()[0]['msg']}") from error


def _last_change(root: Path, path: str) -> tuple[str, datetime]:
    """The last commit that changed the file. Raises PolicyError, also if a shallow clone ends at that commit."""
    try:
        commit, seconds = git(root, "log", "-1", "--format=%H %ct", "HEAD", "--", path).split()
        is_oldest = commit in git(root, "rev-list", "--max-parents=0", "HEAD").split()
        is_cut = is_oldest and git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    except (GitError, ValueError) as error:
        raise PolicyError(f"{path}: git does not find the commit that changed it last: {error}") from error
    if is_cut:
        raise PolicyError(
            f"{path}: this clone is too shallow to find the commit that changed it last; fetch all (fetch-depth: 0)"
        )
    return commit, datetime.fromtimestamp(int(seconds), UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPolicy:
    """Policy of a comparison, the same for all interim analyses of a gate."""

    committed: CommittedPolicy
    accepted: tuple[Acceptance, ...]
    threshold: float  # of series without a rule
    option_threshold: float | None  # --threshold, which overrides every rule
    notes: tuple[str, ...]
    expired: tuple[ExpiredAcceptance, ...]  # acceptances of the same base and an earlier head

    def limits(self, store: Store, project: str) -> LimitsOf:
        """Thresholds of each series, by the workloads now in the store."""
        return series_limits(
            self.committed.policy.limits,
            queries.project_workloads(store, project),
            threshold=self.threshold,
            threshold_of_all=self.option_threshold,
        )

    def apply(self, comparison: Comparison) -> Comparison:
        """The comparison with acceptances, notes and the fault of head's policy."""
        notes = (*comparison.notes, *self.notes)
        noted = comparison.model_copy(update={"notes": notes, "fault": self.committed.fault})
        return with_acceptances(noted, self.accepted, self.expired)


def read_committed_policy(folder: Path, base: str, head: str, path: Path | None) -> CommittedPolicy:
    """The policy in the file `path`, else base's in `folder` or above. Raises a click error."""
    try:
        return policy_in(path) if path is not None else policy_at(folder, base, head)
    except PolicyError as error:
        raise CannotTellError(str(error)) from error


def read_comparison_policy(
    store: Store,
    project: str,
    repository: Path | None,
    base: str,
    head: str,
    *,
    committed: CommittedPolicy,
    threshold: float | None,
    default_threshold: float,
) -> ComparisonPolicy:
    """The policy for `base` and `head` (full hashes); `threshold` is the option's."""
    accepted, faults = acceptances_between(store, project, repository, base, head)
    return ComparisonPolicy(
        committed=committed,
        accepted=accepted,
        threshold=threshold or committed.policy.gate.threshold or default_threshold,
        expired=expired_acceptances(store, project, base, head),
        option_threshold=threshold,
        notes=(*committed.notes, *faults),
    )


def exit_status(comparison: Comparison) -> int:
    """Exit status of `check` and `gate`: 1 if head must not be merged, 2 if inconclusive, else 0."""
    if comparison.is_blocking:
        return 1
    return 2 if comparison.is_inconclusive else 0
