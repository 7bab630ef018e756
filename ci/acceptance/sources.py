"""Sources of acceptances: commit messages, a file of replies, and the store."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from warpwatch.dashboard.importers.git import GitError, messages
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.model.schema import first_fault
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import acceptances

from .grammar import parse_acceptance, printable

# `Accept-Regression: <glob> [<= 5 %] <reason>` in the messages of the commits between base and head.
#
# Any line counts, not only git's trailers at the end: a squash moves last lines into the middle of a message.

_LINE = re.compile(r"^[ \t]*Accept-Regression:(?P<rest>.*)$", re.IGNORECASE | re.MULTILINE)


def accepted_in_messages(repository: Path, base: str, head: str) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:
    """Acceptances in the messages of base..head (full hashes), and a sentence for each invalid line."""
    try:
        commits = messages(repository, base, head)
    except GitError as error:
        return (), (f"accepted regressions cannot be read from {repository}: {error}",)
    accepted, faults = [], []
    for message in commits:
        source = f"commit {message.commit[:8]}"
        for match in _LINE.finditer(message.text):
            try:
                line = parse_acceptance(match["rest"])
                accepted.append(
                    Acceptance(
                        pattern=line.pattern,
                        reason=line.reason,
                        at_most=line.at_most,
                        by=printable(message.author),
                        at=message.date,
                        source=source,
                    )
                )
            except ValueError as error:
                faults.append(f"Accept-Regression in {source} is invalid: {first_fault(error)}")
    return tuple(accepted), tuple(faults)


# The file of `--accept`: acceptances from replies, for one range of commits, written by a job that may read them.

_Word = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S"), AfterValidator(printable)]
_Words = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"\S"), AfterValidator(printable)]
_Hash = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]


class AcceptFileError(Exception):
    """The file is invalid; the message names the field and the reason."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Accepted(_Part):
    pattern: _Word
    reason: _Words
    by: _Word
    at: AwareDatetime
    source: _Word
    at_most: float | None = Field(default=None, gt=0)


class _AcceptFile(_Part):
    base: _Hash
    head: _Hash
    accepted: tuple[_Accepted, ...]


def read_accept_file(path: Path, base: str, head: str) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:
    """The file's acceptances for this range (full hashes), else none and a sentence. Raises AcceptFileError."""
    try:
        content = _AcceptFile.model_validate_json(path.read_bytes())
        accepted = tuple(Acceptance(**each.model_dump()) for each in content.accepted)
    except OSError as error:
        raise AcceptFileError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in error.errors())
        raise AcceptFileError(f"{path} is not a file of accepted regressions: {faults}") from error
    except ValueError as error:
        raise AcceptFileError(f"{path}: {error}") from error
    if (content.base, content.head) != (base, head):
        other = f"{content.base[:8]}..{content.head[:8]}"
        return (), (f"{path} is ignored: it accepts regressions of {other}, not of {base[:8]}..{head[:8]}",)
    return accepted, ()


def acceptances_between(
    store: Store, project: str, repository: Path | None, base: str, head: str, file: Path | None = None
) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:
    """All acceptances for base..head (full hashes) without duplicates, and sentences on unreadable ones.

    Raises AcceptFileError.
    """
    accepted: list[Acceptance] = []
    faults: list[str] = []
    if repository is not None:
        in_messages, invalid_lines = accepted_in_messages(repository, base, head)
        accepted += in_messages
        faults += invalid_lines
    if file is not None:
        in_file, notes = read_accept_file(file, base, head)
        accepted += in_file
        faults += notes
    accepted += acceptances(store, project, base, head)
    unique = {(each.source, each.pattern): each for each in reversed(accepted)}
    return tuple(reversed(unique.values())), tuple(faults)
