"""The two sides that a compare page's URL names, found in the store; or the sentence that says why not."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import request

from warpwatch.dashboard.comparing import By, Compared
from warpwatch.dashboard.named_commit import named_commit
from warpwatch.dashboard.pages.compared import compared_commits, compared_implementations, compared_machines
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import Commit, Project


class NoSideError(Exception):
    """A side is not there; the message is a sentence for the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What to compare. `base` and `head` are machines or implementations where no commits are compared."""

    by: By
    base_commit: Commit
    head_commit: Commit
    base: str = ""
    head: str = ""
    all_metrics: bool = False

    @property
    def names(self) -> dict[str, str]:
        """As the URL has it, commits in full; what is empty stays out of it."""
        if self.by is By.COMMIT:
            return {"base": self.base_commit.hash, "head": self.head_commit.hash}
        return {"by": self.by.value, "commit": self.head_commit.hash, "base": self.base, "head": self.head}

    def compared(self, project: str) -> Compared:
        """The comparison itself."""
        if self.by is By.COMMIT:
            return compared_commits(project, self.base_commit, self.head_commit, all_metrics=self.all_metrics)
        judged = compared_machines if self.by is By.MACHINE else compared_implementations
        return judged(project, self.head_commit, self.base, self.head)


def asked_by() -> By:
    """What the URL wants compared."""
    asked = request.args.get("by", "")
    return By(asked) if asked in set(By) else By.COMMIT


def asked_sides(project: Project) -> Sides | None:
    """What the URL names, with what it leaves open filled in; None where it has neither side, not even an empty one.

    Raises NoSideError.
    """
    asked = request.args.get("by", "")
    if asked and asked not in set(By):
        raise NoSideError(f"Nothing is compared by “{asked}”: choose one of {', '.join(By)}.")
    by = asked_by()
    if by is By.COMMIT:
        return _commits(project)
    names = {name: request.args.get(name, "").strip() for name in ("base", "head", "commit")}
    if by is By.MACHINE:
        machines = [machine.name for machine in queries.machines(store(), project.name)]
        for side in ("base", "head"):
            if names[side] and names[side] not in machines:
                raise NoSideError(f"No machine of {project.name} is called “{names[side]}”.")
        if not (names["base"] and names["head"]):
            return None
        together: Sequence[str] = (names["base"], names["head"])
    else:
        together = ()
        if not any(name in request.args for name in ("base", "head", "commit")):
            return None
        known = queries.implementations(store(), project.name)
        for side in ("base", "head"):
            if names[side] and names[side] not in known:
                raise NoSideError(f"No implementation of {project.name} is called “{names[side]}”.")
    commit = (
        find(project, names["commit"]) if names["commit"] else queries.newest_measured(store(), project.name, together)
    )
    if commit is None:
        raise NoSideError("No commit was measured on both machines." if together else "No commit has results yet.")
    return Sides(by=by, base_commit=commit, head_commit=commit, base=names["base"], head=names["head"])


def find(project: Project, name: str) -> Commit:
    """The commit of a hash, a shortened hash, a branch or a tag. Raises NoSideError."""
    try:
        found, full = named_commit(store(), project, name)
    except queries.AmbiguousCommitError as error:
        raise NoSideError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    if found is not None:
        return found
    if full:
        raise NoSideError(f"“{name}” is commit {full[:8]}, which has no results in {project.name}.")
    raise NoSideError(
        f"No commit of {project.name} that has results is called “{name}”. "
        "Give a branch, a tag, or at least 7 digits of a hash."
    )


def _commits(project: Project) -> Sides | None:
    if not {"base", "head"} & set(request.args):
        return None
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    newest = queries.commits(store(), project.name, limit=1)
    if not newest:
        raise NoSideError("No commit has results yet.")
    head_commit = find(project, head) if head else newest[0]
    if base:
        base_commit = find(project, base)
    else:
        around = queries.between(store(), project.name, head_commit, head_commit)
        if around.head_older is None:
            raise NoSideError(f"No commit before {head_commit.hash[:8]} has results.")
        base_commit = around.head_older
    return Sides(
        by=By.COMMIT, base_commit=base_commit, head_commit=head_commit,
        all_metrics=request.args.get("metrics") == "all",
    )  # fmt: skip
