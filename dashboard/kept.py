"""Answers kept: what a view said of a question it says again, until the store is written into or the minute is over.

Only views of the blueprints that are named to `register` are kept. Their answers rest on

- the store and the clock: an answer holds in the state that these were in before it was made;
- the address, what the reader takes (`Accept`), and who reads, in which role, by which token: they are its key;
- the reader's CSRF token, which is put in as the answer goes out;
- the session, if it holds more, such as what the next page is to say once, or whatever else a view tells by
  `rests_on_more`: then nothing is kept.

All that comes before a view and after it (host names, logins, limits, headers, compression) is done for each request,
and an error is made anew each time.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from flask import Blueprint, Flask, Response, current_app, g, request
from werkzeug.datastructures import Headers

from warpwatch.dashboard import clock
from warpwatch.dashboard.access import csrf, requester, sessions
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.store.remembered import Remembered

_ROOM = 64 * 2**20  # bytes
_MOST = 4096
_OF_AN_ENTRY = 2000  # bytes, beside what it says


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    headers: Headers
    body: bytes
    stand_in: bytes | None  # in the place of each reader's CSRF token, where there is one
    compressed: dict[str, bytes] = field(default_factory=dict)  # by coding; without a stand-in


class _OnceError(Exception):
    """Carries an answer that is not to be kept."""

    def __init__(self, answer: _Answer) -> None:
        self.answer = answer


class _StreamedError(Exception):
    """Carries an answer that goes out while it is made: nobody holds the whole of it."""

    def __init__(self, response: Response) -> None:
        self.response = response


class Compressed:
    """For Flask-Compress: what it made of the answer that goes out is kept beside it."""

    def get(self, coding: str) -> bytes | None:
        """The answer's body in this coding, if somebody took it so before."""
        found: dict[str, bytes] = g.get("kept_compressed", {})
        return found.get(coding)

    def set(self, coding: str, body: bytes) -> None:
        """Keeps it."""
        if "kept_compressed" in g:
            g.kept_compressed[coding] = body


def register(app: Flask, blueprints: Iterable[Blueprint], *, room: int = _ROOM) -> None:
    """Keeps the answers of these blueprints' views, once all are there; all together no more than `room` bytes."""
    kept = Remembered(most=_MOST, room=room)
    names = {blueprint.name for blueprint in blueprints}
    for endpoint, view in app.view_functions.items():
        if endpoint.rpartition(".")[0] in names:
            app.view_functions[endpoint] = _keeping(kept, view)


def rests_on_more() -> None:
    """To be called where a view looks at something else than the store, such as a repository's branches."""
    g.rests_on_more = True


def _keeping(kept: Remembered, view: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(view)
    def answered(**path: Any) -> Any:
        if request.method not in {"GET", "HEAD"}:
            return view(**path)
        if sessions.says_more():
            return _finished(current_app.make_response(view(**path)))
        state = (store().state(), clock.now())
        try:
            answer = kept.get(state, _key(), lambda: _made(view, path), _weight)
        except _OnceError as once:
            answer = once.answer
        except _StreamedError as streamed:
            streamed.response.cache_control.private = True
            streamed.response.cache_control.no_cache = True
            return streamed.response
        return _finished(_sent(answer))

    return answered


def _key() -> bytes:
    """A digest of what tells questions and readers apart, so that a long one takes no more room."""
    token = requester.token() if requester.has_bearer() else None
    reader = (requester.person(), token.id if token is not None else None, request.authorization is not None)
    asked = (request.root_url, request.path, request.query_string, request.headers.get("Accept"))
    return hashlib.sha256(repr((asked, reader)).encode("utf-8", "surrogatepass")).digest()


def _made(view: Callable[..., Any], path: dict[str, Any]) -> _Answer:
    with csrf.without_reader() as stand_in:
        response = current_app.make_response(view(**path))
        if response.is_streamed:
            raise _StreamedError(response)
        body = response.get_data()
    has_forms = stand_in.encode() in body
    if not has_forms:
        response.add_etag()
    answer = _Answer(
        status=response.status_code, headers=response.headers, body=body,
        stand_in=stand_in.encode() if has_forms else None,
    )  # fmt: skip
    if "rests_on_more" in g:
        raise _OnceError(answer)
    return answer


def _weight(answer: _Answer) -> int:
    """Bytes that it takes, in two codings too."""
    return 2 * len(answer.body) + len(str(answer.headers)) + _OF_AN_ENTRY


def _sent(answer: _Answer) -> Response:
    if answer.stand_in is None:
        g.kept_compressed = answer.compressed
        return current_app.response_class(answer.body, status=answer.status, headers=answer.headers.copy())
    body = answer.body.replace(answer.stand_in, csrf.csrf_token().encode())
    response = current_app.response_class(body, status=answer.status, headers=answer.headers.copy())
    # Of the page and the session: another mask makes no other page, and a token of another session would fail.
    said = answer.body.replace(answer.stand_in, b"") + csrf.session_token().encode()
    response.set_etag(hashlib.sha256(said).hexdigest())
    return response


def _finished(response: Response) -> Response:
    """With an ETag; a browser that has it already is told so. Results come at any moment: it asks each time."""
    if not response.cache_control:
        response.cache_control.private = True
        response.cache_control.no_cache = True
    if response.status_code == 200:
        response.add_etag()
        response.make_conditional(request)
    return response
