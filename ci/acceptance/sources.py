"""Where acceptances come from: commit messages, a file of replies, and the store."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from warpwatch.dashboard.importers.git import GitError, messages
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.model.schema import first_fault
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import acceptances

from .grammar import parse_wording, shown

# `Accept-Regression: <glob> [<= 5 %] <reason>` in the messages of the commits between base and head.
#
# Any line counts, not only git's trailers at the end: a squash puts one commit's last line into the middle of
# another.

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
                        pattern=words.pattern,
                        reason=words.reason,
                        at_most=words.at_most,
                        by=shown(message.author),
                        at=message.date,
                        source=source,
                    )
                )
            except ValueError as error:
                faults.append(f"Accept-Regression in {source} accepts nothing: {first_fault(error)}")
    return tuple(found), tuple(faults)


# The file of `--accept`: what a job that may read replies took from them, for one range of commits.

_Word = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S"), AfterValidator(shown)]
_Words = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"\S"), AfterValidator(shown)]
_Hash = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]


class AcceptFileError(Exception):
    """A file that is none; the message says where and why."""


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
    """What the file accepts of this range (full hashes); of another nothing, which the second part says.

    Raises AcceptFileError.
    """
    try:
        told = _AcceptFile.model_validate_json(path.read_bytes())
        found = tuple(Acceptance(**each.model_dump()) for each in told.accepted)
    except OSError as error:
        raise AcceptFileError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the whole'}: {each['msg']}" for each in error.errors()
        )
        raise AcceptFileError(f"{path} is no file of accepted regressions: {faults}") from error
    except ValueError as error:
        raise AcceptFileError(f"{path}: {error}") from error
    if (told.base, told.head) != (base, head):
        seen = f"{told.base[:8]}..{told.head[:8]}"
        return (), (f"{path} accepts regressions of {seen}, not of {base[:8]}..{head[:8]}: none of it counts",)
    return found, ()


def gathered(
    store: Store, project: str, repository: Path | None, base: str, head: str, file: Path | None = None
) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:
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
