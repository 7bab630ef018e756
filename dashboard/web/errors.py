"""Error handlers: a page for browsers, problem details for the API."""

import sqlite3

from flask import Flask, g, request
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from werkzeug.exceptions import HTTPException, ServiceUnavailable

from .error_messages import problem
from .pages import login
from .request_context import error_page

_RETRY_AFTER_S = 5
_DAMAGED = (
    "The database file is damaged and cannot be read. The administrator has to restore a copy; "
    "the server’s log has the database’s error."
)


def register(app: Flask) -> None:
    """Register the handlers; a failing database is 503."""

    def unavailable(error: Exception) -> ResponseReturnValue:
        app.logger.error("the database does not respond", exc_info=error)
        g.setdefault("token", None)  # so that the error page does not query the database
        return _respond(ServiceUnavailable(retry_after=_RETRY_AFTER_S))

    app.register_error_handler(HTTPException, _respond)

    def damaged(error: Exception) -> ResponseReturnValue:
        if type(error) not in {DatabaseError, sqlite3.DatabaseError}:
            raise error  # our own bug, such as an invalid statement
        app.logger.error("the database cannot be read", exc_info=error)
        g.setdefault("token", None)
        return _respond(ServiceUnavailable(_DAMAGED, retry_after=_RETRY_AFTER_S))

    # SQLite's error for a damaged file.
    app.register_error_handler(DatabaseError, damaged)
    app.register_error_handler(sqlite3.DatabaseError, damaged)
    # sqlite3's own: the store reads its write counter without SQLAlchemy.
    for kind in (OperationalError, InterfaceError, NoConnectionError, sqlite3.OperationalError):
        app.register_error_handler(kind, unavailable)


def _respond(error: HTTPException) -> ResponseReturnValue:
    if error.code is None or error.code < 400:
        return error.get_response()  # a redirect
    if request.path.startswith("/api/") or request.path.endswith(".json"):
        return problem(error)
    response = error.get_response()  # with its headers (WWW-Authenticate, Allow, Retry-After)
    response.set_data(login.page(error.description) if error.code == 401 else error_page(error))
    return response
