"""GitHub's runner program as it was unpacked on this machine: its version, and the oldest that the workflows run on."""

import re
from pathlib import Path

from warpwatch.ci.runner.host import Host

OLDEST = "2.336.0"  # the first that knows `uses: $/…`, by which the workflows name each other
RELEASES = "https://github.com/actions/runner/releases"


def version_of(host: Host, folder: Path) -> str | None:
    """What its list of dependencies says, else the program, which would write a log beside itself; None if neither."""
    try:
        listed = (folder / "bin" / "Runner.Listener.deps.json").read_text(errors="replace")
    except OSError:
        listed = ""
    if found := re.search(r'"Runner\.Listener/(\d+(?:\.\d+)+)', listed):
        return found[1]
    said = host.run(*host.as_user, str(folder / "bin" / "Runner.Listener"), "--version")
    found = re.fullmatch(r"\d+(?:\.\d+)+", said.first_line)
    return found[0] if found and said.status == 0 else None


def is_too_old(version: str) -> bool:
    """Whether the workflows do not run on it."""
    return _numbers(version) < _numbers(OLDEST)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
