"""All that was accepted of a range of commits: in messages, in a file of replies, and what the store keeps."""

from pathlib import Path

from warpwatch.ci.acceptance.accept_file import read_accept_file
from warpwatch.ci.acceptance.trailers import accepted_in_messages
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.acceptances import Acceptance, acceptances


def gathered(
    store: Store, project: str, repository: Path | None, base: str, head: str, file: Path | None = None
) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:  # fmt: skip
    """What counts between base and head (full hashes), each word once; and what could not be read of it.

    Raises AcceptFileError.
    """
    found: list[Acceptance] = []
    faults: list[str] = []
    if repository is not None:
        said, wrong = accepted_in_messages(repository, base, head)
        found += said
        faults += wrong
    if file is not None:
        said, wrong = read_accept_file(file, base, head)
        found += said
        faults += wrong
    found += acceptances(store, project, base, head)
    once = {(each.source, each.pattern): each for each in reversed(found)}
    return tuple(reversed(once.values())), tuple(faults)
