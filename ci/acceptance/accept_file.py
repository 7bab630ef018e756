"""The file of `--accept`: what a job that may read replies took from them, for one range of commits."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from warpwatch.ci.acceptance.wording import shown
from warpwatch.dashboard.store.acceptances import Acceptance

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
