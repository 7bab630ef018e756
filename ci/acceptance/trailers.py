"""`Accept-Regression: <glob> [<= 5 %] <reason>` in the messages of the commits between base and head.

Any line counts, not only git's trailers at the end: a squash puts one commit's last line into the middle of another.
"""

import re
from pathlib import Path

from warpwatch.ci.acceptance.wording import parse_wording, shown
from warpwatch.dashboard.importers.git_history import GitError, messages
from warpwatch.dashboard.store.acceptances import Acceptance

_LINE = re.compile(r"^[ \t]*Accept-Regression:(?P<rest>.*)$", re.IGNORECASE | re.MULTILINE)


def accepted_in_messages(repository: Path, base: str, head: str) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:
    """What the commits that head (full hash) has and base has not accept; and a sentence for each line that cannot be
    understood. Of a repository without these commits: nothing.
    """
    try:
        said = messages(repository, base, head)
    except GitError as error:
        return (), (f"accepted regressions cannot be read from {repository}: {error}",)
    found, faults = [], []
    for message in said:
        source = f"commit {message.commit[:8]}"
        for line in _LINE.finditer(message.text):
            try:
                words = parse_wording(line["rest"])
                found.append(
                    Acceptance(
                        pattern=words.pattern, reason=words.reason, at_most=words.at_most, by=shown(message.author),
                        at=message.date, source=source,
                    )
                )  # fmt: skip
            except ValueError as error:
                faults.append(f"Accept-Regression in {source} accepts nothing: {error}")
    return tuple(found), tuple(faults)
