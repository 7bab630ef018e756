"""How much a commit is suspected before anything is measured: by the files that it changed, and by machine code."""

import itertools
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch

import numpy as np

from warpwatch.ci.bisect.commit_range import RangeCommit
from warpwatch.ci.bisect.runs import Floats

_UNLIKELY = 1e-3  # nothing that it changed is built or measured
_ELSEWHERE = 0.02  # it changed other files than those that are said to matter
_SAME_CODE = 1e-2  # the same machine code ran before and after: inputs, launches or the host's code may differ
_IDLE = re.compile(
    r"(^|/)(docs?|tests?|\.github|\.gitlab|\.ci)/|\.(md|rst)$|(^|/)(LICENSE|CHANGELOG|AUTHORS|\.gitignore)[^/]*$"
)


def suspicion(
    commits: Sequence[RangeCommit], *, wanted_paths: Sequence[str] = (), carried: str | None = None,
    codes: Mapping[str, str] | None = None,
) -> Floats:  # fmt: skip
    """A weight for each commit but the first, which is good.

    `wanted_paths` are what the series is made of, as globs; none: anything but tests, documentation and CI. `carried`
    is the benchmarks' folder, which asv takes from the checkout whatever it measures. `codes` holds the hash of the
    machine code that ran at commits, where it is known: between two that ran the same, nothing is suspected.
    """
    weights = np.ones(len(commits) - 1)
    for place, commit in enumerate(commits[1:]):
        matter = [path for path in commit.paths if not _is_idle(path, carried)]
        if not matter:
            weights[place] = _UNLIKELY
        elif wanted_paths and not any(_matches(path, wanted_paths) for path in matter):
            weights[place] = _ELSEWHERE
    known = [(place, codes[commit.hash]) for place, commit in enumerate(commits) if codes and commit.hash in codes]
    for (before, old), (after, new) in itertools.pairwise(known):
        if old == new:
            weights[before:after] = np.minimum(weights[before:after], _SAME_CODE)
    return weights


def _is_idle(path: str, carried: str | None) -> bool:
    return bool(_IDLE.search(path)) or (carried is not None and path.startswith(f"{carried.strip('./')}/"))


def _matches(path: str, wanted: Sequence[str]) -> bool:
    """A glob, or a folder with all that is in it."""
    return any(fnmatch(path, glob) or path.startswith(f"{glob.rstrip('/')}/") for glob in wanted)
