"""Files of a runner's services, below the root: units, secrets, GitHub's runner program."""

import re
from pathlib import Path

from .host import Host

UNIT_FOLDER = "etc/systemd/system"
PUSH_TOKEN, GITHUB_TOKEN = "etc/warpwatch/push-token", "etc/warpwatch/github-token"
SECRETS = (PUSH_TOKEN, GITHUB_TOKEN)
CLOCKS, MEASURE, TIMER = "warpwatch-clocks.service", "warpwatch-measure.service", "warpwatch-measure.timer"
PUSH, REGISTRATION, ACTIONS = "warpwatch-push.service", "warpwatch-registration.service", "warpwatch-actions.service"
WATCHED_UNITS = (TIMER, PUSH, ACTIONS)  # enabled by an administrator; these require the others

OLDEST = "2.336.0"  # the first with `uses: $/…`, by which our workflows call each other
RELEASES = "https://github.com/actions/runner/releases"


def version_of(host: Host, folder: Path) -> str | None:
    """From the list of dependencies, else from the program, which writes a log into its folder; None if unknown."""
    try:
        dependencies = (folder / "bin" / "Runner.Listener.deps.json").read_text(errors="replace")
    except OSError:
        dependencies = ""
    if match := re.search(r'"Runner\.Listener/(\d+(?:\.\d+)+)', dependencies):
        return match[1]
    answer = host.run(*host.as_user, str(folder / "bin" / "Runner.Listener"), "--version")
    match = re.fullmatch(r"\d+(?:\.\d+)+", answer.first_line)
    return match[0] if match and answer.status == 0 else None


def is_too_old(version: str) -> bool:
    return _numbers(version) < _numbers(OLDEST)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
