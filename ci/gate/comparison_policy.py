"""By what two commits of a project are judged: the policy, and what a person accepted between them."""

from dataclasses import dataclass
from pathlib import Path

from warpwatch.dashboard.cli.store_access import CannotTellError
from warpwatch.dashboard.model.comparison import Acceptance, Comparison
from warpwatch.dashboard.model.thresholds import LimitsOf, series_limits
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import ExpiredAcceptance, expired_acceptances

from ..acceptance.coverage import with_acceptances
from ..acceptance.sources import AcceptFileError, gathered
from ..policy.committed_policy import FoundPolicy, policy_at, policy_in
from ..policy.policy_file import PolicyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is judged by, the same for all looks of a gate."""

    found: FoundPolicy
    accepted: tuple[Acceptance, ...]
    threshold: float  # where no rule says otherwise
    threshold_of_all: float | None  # stated on the command line, above every rule
    notes: tuple[str, ...]
    expired: tuple[ExpiredAcceptance, ...]  # said of the same base and an earlier head

    def limits(self, store: Store, project: str) -> LimitsOf:
        """Of each series, by what the store knows of the workloads now."""
        return series_limits(
            self.found.policy.limits,
            queries.project_workloads(store, project),
            threshold=self.threshold,
            threshold_of_all=self.threshold_of_all,
        )

    def applied(self, comparison: Comparison) -> Comparison:
        """The comparison with accepted regressions, notes and the fault of head's policy."""
        notes = (*comparison.notes, *self.notes)
        noted = comparison.model_copy(update={"notes": notes, "fault": self.found.fault})
        return with_acceptances(noted, self.accepted, self.expired)


def read_policy_for(folder: Path, base: str, head: str, path: Path | None) -> FoundPolicy:
    """The file at `path`, else base's in `folder` or above. Raises a click error."""
    try:
        return policy_in(path) if path is not None else policy_at(folder, base, head)
    except PolicyError as error:
        raise CannotTellError(str(error)) from error


def read_terms(
    store: Store,
    project: str,
    repository: Path | None,
    base: str,
    head: str,
    *,
    found: FoundPolicy,
    accept_file: Path | None,
    threshold: float | None,
    default_threshold: float,
) -> Terms:
    """Base and head are full hashes; a stated `threshold` is above policy and default. Raises a click error."""
    try:
        accepted, faults = gathered(store, project, repository, base, head, accept_file)
    except AcceptFileError as error:
        raise CannotTellError(str(error)) from error
    return Terms(
        found=found,
        accepted=accepted,
        threshold=threshold or found.policy.gate.threshold or default_threshold,
        expired=expired_acceptances(store, project, base, head),
        threshold_of_all=threshold,
        notes=(*found.notes, *faults),
    )


def exit_status(comparison: Comparison) -> int:
    """Exit status of `check` and `gate`: 1 if head must not be merged, 2 if that is inconclusive, else 0."""
    if comparison.is_blocking:
        return 1
    return 2 if comparison.is_inconclusive else 0
