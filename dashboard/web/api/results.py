"""`POST /api/projects/<project>/results`: a result file or an archive as the body, into the history.

Each file is in whole or not at all, and the same body again changes nothing, so a runner may repeat a request that
failed. The body goes to a temporary file in pieces.
"""

import base64
import hashlib
import re
import time
from pathlib import Path

from flask import Blueprint, Response, abort, current_app, request
from flask.typing import ResponseReturnValue
from pydantic import Field
from werkzeug.exceptions import RequestEntityTooLarge

from ...analysis.series_analysis import analyse
from ...executors import local_workers
from ...importers.archive import ArchiveError, NoRoomError, TooLargeError, is_archive
from ...importers.asv_folder import NoResultsError
from ...importers.formats import KNOWN
from ...importers.import_asv import ImportSummary
from ...importers.import_limits import upload_limits
from ...importers.import_overrides import ImportOverrides, milliseconds
from ...importers.import_path import import_path
from ...importers.scratch_folder import scratch_folder
from ...model.schema import Schema
from ...store.rejected_files import record_rejected_files
from ...store.tokens import Scope
from ..auth import tokens_alone, working_token
from ..auth.rate_limits import costly
from ..request_context import store
from .operation import describe
from .problems import problem_response
from .query_params import Question, Text, asked

bp = Blueprint("api_results", __name__)
_CHUNK = 1024 * 1024
_NAME = "upload"
_SHA256 = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")  # in RFC 9530's Content-Digest, among others perhaps


class UploadQuestion(Question):
    """What the address says of results that do not say it themselves."""

    commit: Text = ""
    """The full hash that was measured."""
    date: Text = ""
    """When it was committed, ISO 8601 or seconds since 1970."""
    machine: Text = ""


class Uploaded(Schema):
    """What went in. Of a 422, the problem has `set_aside` and `warnings` too."""

    project: str
    files: int = Field(ge=0)
    unchanged: int = Field(ge=0)
    """Files that were in already."""
    points: int = Field(ge=0)
    """Values that are new."""
    series_analysed: int = Field(ge=0)
    set_aside: list[str]
    """Files that could not be read, a sentence each."""
    warnings: list[str]


@bp.post("/api/projects/<project:project>/results")
@costly
@tokens_alone
def add(project: str) -> ResponseReturnValue:
    """Adds a result file or an archive of them to a project's history.

    The body is the file as it is (`curl --data-binary @FILE`). Each file is in whole or not at all, and the same again
    changes nothing. 422 if nothing of it could be read. A header `Content-Digest: sha-256=:…:` (RFC 9530) has a body
    refused that changed on its way.
    """
    name = _authorise(project)
    overrides = _given(asked(UploadQuestion))
    with scratch_folder() as folder:
        path = folder / _NAME
        _receive(path)
        limits = upload_limits(_limit_bytes())
        try:
            summary = import_path(store(), path, project=project, overrides=overrides, limits=limits, workers=1)
            told = _plain(summary.set_aside, folder)
            record_rejected_files(store(), project, f"uploads of {name}", told, now_ms=time.time_ns() // 1_000_000)
            with local_workers(1) as here:  # a request keeps to its thread; the server has others to answer
                analysed = analyse(store(), only=project, workers=here)
        except TooLargeError as error:
            abort(413, str(error))
        except NoRoomError:
            abort(503, "The body cannot be unpacked here now: the server has no room.")
        except (ArchiveError, NoResultsError) as error:
            abort(422, str(error).replace(str(path), _NAME))
    answer = _told(summary, analysed, folder)
    if not summary.files:
        return problem_response(422, "Nothing of it could be read; set_aside says why.", **answer.model_dump())
    return Response(answer.model_dump_json() + "\n", content_type="application/json")


describe(add, add.__doc__, question=UploadQuestion, answer=Uploaded, tag="Upload", statuses=(400, 401, 403, 413, 415))


def _authorise(project: str) -> str:
    """The name of the token for uploads to the project; ends the request without one."""
    token = working_token()
    if token.project != project or token.scope is not Scope.UPLOAD:
        abort(403, f"This token is not for uploads to {project}.")
    return token.name


def _given(told: UploadQuestion) -> ImportOverrides:
    """What the address says of the results: commit, date, machine."""
    try:
        date_ms = milliseconds(told.date) if told.date else None
    except ValueError as error:
        abort(422, str(error))
    return ImportOverrides(commit=told.commit or None, date_ms=date_ms, machine=told.machine or None)


def _receive(path: Path) -> None:
    """Writes the body to the file, and ends the request if that cannot hold results."""
    digest = hashlib.sha256()
    try:
        with path.open("wb") as file:
            while chunk := request.stream.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
    except RequestEntityTooLarge:
        abort(
            413, f"The body has more than {_limit_bytes() // 2**20} MiB, the limit here (WARPWATCH_UPLOAD_LIMIT_MIB)."
        )
    except OSError as error:
        abort(503, f"The body cannot be kept here: {error.strerror}.")
    stated = _SHA256.search(request.headers.get("Content-Digest", ""))
    if stated is not None and base64.b64decode(stated[1]) != digest.digest():
        abort(400, "The body is not the one that Content-Digest speaks of: it was changed on its way. Send it again.")
    if path.stat().st_size == 0:
        abort(422, "The body is empty; send a result file or an archive (curl --data-binary @FILE).")
    with path.open("rb") as file:
        is_json = file.read(512).lstrip()[:1] == b"{"
    if not is_json and not is_archive(path):
        kinds = ".zip, .tar, .tar.gz or .tar.zst"
        abort(415, f"The body is neither JSON nor a {kinds}; wanted results of {KNOWN} (curl --data-binary).")


def _limit_bytes() -> int:
    limit = current_app.config["MAX_CONTENT_LENGTH"]
    assert isinstance(limit, int)
    return limit


def _told(summary: ImportSummary, analysed: int, folder: Path) -> Uploaded:
    return Uploaded(
        project=summary.project,
        files=summary.files,
        unchanged=summary.unchanged,
        points=summary.points,
        series_analysed=analysed,
        set_aside=_plain(summary.set_aside, folder),
        warnings=_plain(summary.warnings, folder),
    )


def _plain(lines: tuple[str, ...], folder: Path) -> list[str]:
    """Lines without the temporary folder's name."""
    return [line.replace(f"{folder}/", "") for line in lines]
