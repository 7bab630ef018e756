"""The policy of a comparison of two commits: the committed policy, options and acceptances."""

from dataclasses import dataclass
from pathlib import Path

from warpwatch.dashboard.cli.store_access import CannotTellError
from warpwatch.dashboard.model.comparison import Acceptance, Comparison
from warpwatch.dashboard.model.thresholds import LimitsOf, series_limits
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import ExpiredAcceptance, expired_acceptances

from ..acceptance import acceptances_between, with_acceptances
from ..policy.committed_policy import CommittedPolicy, policy_at, policy_in
from ..policy.policy_file import PolicyError


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
