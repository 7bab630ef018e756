"""The commands that measure one series again, on any machine with the repository."""

import re
import shlex
from collections.abc import Sequence

from warpwatch.dashboard.store.records import Commit, Series


def asv_command(series: Series, commit: Commit) -> str | None:
    """`asv run` for exactly this benchmark and these parameters at this commit; None if another tool measured it."""
    if not series.is_asvs:
        return None
    return f"asv run --record-samples --bench {_pattern(series)} {shlex.quote(commit.hash + '^!')}"


def asv_commits(series: Series, commits: Sequence[Commit]) -> str | None:
    """`asv run` for the same at each of these commits."""
    if len(commits) == 1 or not series.is_asvs:
        return asv_command(series, commits[0])
    hashes = " ".join(shlex.quote(commit.hash) for commit in commits)
    return f"printf '%s\\n' {hashes} | asv run --record-samples --bench {_pattern(series)} HASHFILE:-"


def asv_between(series: Series, base: Commit, head: Commit, steps: int) -> str | None:
    """`asv run` for the same at up to `steps` commits after base and up to head, evenly apart."""
    if not series.is_asvs:
        return None
    commits = shlex.quote(f"{base.hash}..{head.hash}")
    return f"asv run --record-samples --steps {steps} --bench {_pattern(series)} {commits}"


def gate_command(series: Series, base: Commit, head: Commit) -> str | None:
    """`warpwatch gate` for the same at two commits: measured in turns, until it is sure."""
    if not series.is_asvs:
        return None
    return f"warpwatch gate {shlex.quote(base.hash)} {shlex.quote(head.hash)} --bench {_pattern(series)}"


def _pattern(series: Series) -> str:
    """What `--bench` wants, quoted for a shell.

    asv matches it against "name(param, param)" with strings in quotes; the store keeps parameters without them, so a
    dot stands where a quote may be.
    """
    pattern = f"^{re.escape(series.benchmark)}"
    if series.parameters:
        pattern += r"\(" + ", ".join(f".?{re.escape(value)}.?" for _, value in series.parameters) + r"\)"
    # re.escape also escapes what is no sign in a regular expression; without that the command reads better.
    pattern = re.sub(r"\\([ \-#&~=,:<>/'\"])", r"\1", pattern)
    return shlex.quote(pattern + "$")
