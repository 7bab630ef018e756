"""`POST /api/projects/<project>/results`: import the result file or archive in the body.

Each file is imported whole or not at all, and a repeated upload changes nothing, so a runner may retry. The body is
streamed to a temporary file.
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
from ...importers.archive import ArchiveError, ArchiveTooLargeError, NoRoomError, is_archive
from ...importers.asv_folder import NoResultsError
from ...importers.formats import KNOWN
from ...importers.import_asv import ImportSummary
from ...importers.import_limits import upload_limits
from ...importers.import_path import import_path
from ...importers.input_files import ImportOverrides, milliseconds, scratch_folder
from ...model.schema import Schema
from ...store.rejected_files import record_rejected_files
from ...store.tokens import Scope
from ..auth import require_token, token_only
from ..auth.rate_limits import costly
from ..error_messages import problem_response
from ..request_context import store
from .operation import QueryParams, Text, describe, read_params

bp = Blueprint("api_results", __name__)
_CHUNK = 1024 * 1024
_NAME = "upload"
_SHA256 = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")  # of the header Content-Digest (RFC 9530)


class UploadParams(QueryParams):
    """Facts that the result files do not contain."""

    commit: Text = ""
    """Full hash of the measured commit."""
    date: Text = ""
    """Date of the commit, ISO 8601 or seconds since 1970."""
    machine: Text = ""


class UploadResponse(Schema):
    """Summary of the import. The problem of a 422 has `set_aside` and `warnings` too."""

    project: str
    files: int = Field(ge=0)
    unchanged: int = Field(ge=0)
    """Files that were imported before."""
    points: int = Field(ge=0)
    """New values."""
    series_analysed: int = Field(ge=0)
    set_aside: list[str]
    """Files that could not be read, with the reason."""
    warnings: list[str]


@bp.post("/api/projects/<project:project>/results")
@costly
@token_only
def add(project: str) -> ResponseReturnValue:
    """Upload results.

    The body is a result file or an archive of them (`curl --data-binary @FILE`). Each file is imported whole or not at
    all, and a repeated upload changes nothing. 422 if no file could be read. With the header
    `Content-Digest: sha-256=:…:` (RFC 9530) a body that was changed on the way is rejected.
    """
    name = _authorise(project)
    overrides = _given(read_params(UploadParams))
    with scratch_folder() as folder:
        path = folder / _NAME
        _receive(path)
        limits = upload_limits(_limit_bytes())
        try:
            summary = import_path(store(), path, project=project, overrides=overrides, limits=limits, workers=1)
            rejected = _plain(summary.set_aside, folder)
            record_rejected_files(store(), project, f"uploads of {name}", rejected, now_ms=time.time_ns() // 1_000_000)
            with local_workers(1) as workers:  # in this thread: the others serve requests
                analysed = analyse(store(), only=project, workers=workers)
        except ArchiveTooLargeError as error:
            abort(413, str(error))
        except NoRoomError:
            abort(503, "The body cannot be unpacked: the server's disk is full. Try again later.")
        except (ArchiveError, NoResultsError) as error:
            abort(422, str(error).replace(str(path), _NAME))
    body = _response(summary, analysed, folder)
    if not summary.files:
        return problem_response(
            422, "None of the files could be read; `set_aside` has the reasons.", **body.model_dump()
        )
    return Response(body.model_dump_json() + "\n", content_type="application/json")


describe(
    add, add.__doc__, params=UploadParams, response=UploadResponse, tag="Upload", statuses=(400, 401, 403, 413, 415)
)


def _authorise(project: str) -> str:
    """Name of the request's upload token for the project; aborts with 401 or 403 without one."""
    token = require_token()
    if token.project != project or token.scope is not Scope.UPLOAD:
        abort(403, f"This token is not for uploads to {project}.")
    return token.name


def _given(params: UploadParams) -> ImportOverrides:
    try:
        date_ms = milliseconds(params.date) if params.date else None
    except ValueError as error:
        abort(422, str(error))
    return ImportOverrides(commit=params.commit or None, date_ms=date_ms, machine=params.machine or None)


def _receive(path: Path) -> None:
    """Write the body to the file; aborts if it cannot be results."""
    digest = hashlib.sha256()
    try:
        with path.open("wb") as file:
            while chunk := request.stream.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
    except RequestEntityTooLarge:
        limit_mib = _limit_bytes() // 2**20
        abort(413, f"The body is larger than {limit_mib} MiB, the limit of this server (WARPWATCH_UPLOAD_LIMIT_MIB).")
    except OSError as error:
        abort(503, f"The body cannot be stored: {error.strerror}.")
    stated = _SHA256.search(request.headers.get("Content-Digest", ""))
    if stated is not None and base64.b64decode(stated[1]) != digest.digest():
        abort(400, "The body does not match Content-Digest: it was changed on the way. Send it again.")
    if path.stat().st_size == 0:
        abort(422, "The body is empty; send a result file or an archive (curl --data-binary @FILE).")
    with path.open("rb") as file:
        is_json = file.read(512).lstrip()[:1] == b"{"
    if not is_json and not is_archive(path):
        kinds = ".zip, .tar, .tar.gz or .tar.zst"
        abort(415, f"The body is neither JSON nor a {kinds}; expected results of {KNOWN} (curl --data-binary).")


def _limit_bytes() -> int:
    limit = current_app.config["MAX_CONTENT_LENGTH"]
    assert isinstance(limit, int)
    return limit


def _response(summary: ImportSummary, analysed: int, folder: Path) -> UploadResponse:
    return UploadResponse(
        project=summary.project,
        files=summary.files,
        unchanged=summary.unchanged,
        points=summary.points,
        series_analysed=analysed,
        set_aside=_plain(summary.set_aside, folder),
        warnings=_plain(summary.warnings, folder),
    )


def _plain(lines: tuple[str, ...], folder: Path) -> list[str]:
    """Lines without the path of the temporary folder."""
    return [line.replace(f"{folder}/", "") for line in lines]
