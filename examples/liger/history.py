"""Make a git repository with one commit for each release of Liger-Kernel below, for asv to walk over.

    python history.py

A commit holds a requirements.txt with the release, and has its date and its tag. The repository is `.asv/history` here;
the hashes are the same on every machine, so recorded results belong to it.
"""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

REPOSITORY = Path(__file__).parent / ".asv" / "history"
# Dates (UTC) are those of the files in the wheels on PyPI.
RELEASES = {
    "0.1.0": "2024-08-20 18:50",
    "0.3.1": "2024-10-01 20:55",
    "0.4.2": "2024-11-17 19:22",
    "0.5.0": "2024-12-10 03:30",
    "0.5.5": "2025-03-14 00:27",
    "0.5.10": "2025-05-22 17:52",
    "0.6.0": "2025-07-09 05:05",
    "0.6.4": "2025-11-21 22:48",
    "0.7.0": "2026-02-12 22:00",
    "0.8.0": "2026-04-30 23:01",
    "0.8.5": "2026-10-21 00:35",
}


def make_history(repository: Path) -> None:
    """Write the commits and tags to branch `main` of a repository. Raises CalledProcessError where git fails."""
    subprocess.run(["git", "-c", "init.defaultBranch=main", "init", "--quiet", repository], check=True)
    commits = "".join(_commit(mark, *release) for mark, release in enumerate(RELEASES.items(), 1))
    subprocess.run(
        ["git", "-C", repository, "fast-import", "--quiet", "--force"], input=f"{commits}done\n", text=True, check=True
    )
    subprocess.run(["git", "-C", repository, "reset", "--quiet", "--hard", "main"], check=True)


def _commit(mark: int, release: str, date: str) -> str:
    seconds = int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp())
    requirement = f"liger-kernel=={release}\n"
    subject = f"Liger-Kernel {release}"
    parent = f"from :{mark - 1}\n" if mark > 1 else ""
    return (
        f"commit refs/heads/main\nmark :{mark}\ncommitter Liger-Kernel <releases@example.org> {seconds} +0000\n"
        f"data {len(subject)}\n{subject}\n{parent}"
        f"M 100644 inline requirements.txt\ndata {len(requirement)}\n{requirement}\n"
        f"reset refs/tags/v{release}\nfrom :{mark}\n\n"
    )


if __name__ == "__main__":
    make_history(REPOSITORY)
    print(f"{REPOSITORY}: {len(RELEASES)} releases, {next(iter(RELEASES))} to {next(reversed(RELEASES))}")
