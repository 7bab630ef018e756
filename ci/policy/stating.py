"""What a repository's warpwatch.toml states of the limits: the file as its newest commit has it, not as it lies here.

So what somebody tries out in a checkout judges no page, and of two that state, the newer commit counts.
"""

from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from warpwatch.ci.policy.reading import LARGEST_FILE, PolicyError, find_policy, parse_policy, read_policy
from warpwatch.dashboard.importers.git_history import GitError, file_at, git, root_of
from warpwatch.dashboard.limit_rules.stated import StatedLimits


def limits_stated_in(folder: Path) -> StatedLimits | None:
    """By the file in the folder or above it; None where there is none. Raises PolicyError."""
    path = find_policy(folder)
    return limits_stated_by(path) if path is not None else None


def limits_stated_by(path: Path) -> StatedLimits:
    """By the file at a path: as HEAD of its repository has it, else as it lies there. Raises PolicyError."""
    path = path.resolve()
    root = root_of(path.parent)
    inside = path.relative_to(root.resolve()).as_posix() if root is not None else path.name
    try:
        content = file_at(root, "HEAD", inside, most=LARGEST_FILE) if root is not None else None
    except GitError as error:
        raise PolicyError(str(error)) from error
    if root is not None and content is not None:
        commit, committed = _last_change(root, inside)
        rules = parse_policy(content, f"{inside} of {commit[:8]}").limits
    else:
        rules, commit, committed = read_policy(path).limits, None, datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        return StatedLimits(**dict(rules), source=inside, commit=commit, committed=committed)
    except ValidationError as error:
        raise PolicyError(f"{inside}: pages cannot be told of it: {error.errors()[0]['msg']}") from error


def _last_change(root: Path, inside: str) -> tuple[str, datetime]:
    """The commit that gave the file the content it has at HEAD. Raises PolicyError, also where a shallow clone ends
    there: git would name the oldest commit that it has.
    """
    try:
        commit, seconds = git(root, "log", "-1", "--format=%H %ct", "HEAD", "--", inside).split()
        is_oldest = commit in git(root, "rev-list", "--max-parents=0", "HEAD").split()
        is_cut = is_oldest and git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    except (GitError, ValueError) as error:
        raise PolicyError(f"{inside}: git does not say which commit changed it last: {error}") from error
    if is_cut:
        raise PolicyError(
            f"{inside}: this clone is too shallow to say which commit changed it last; fetch it whole (fetch-depth: 0)"
        )
    return commit, datetime.fromtimestamp(int(seconds), UTC)
