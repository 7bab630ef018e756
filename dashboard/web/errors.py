"""The answer to a request that went wrong: a page in the site's frame, or a problem for programs."""

import sqlite3

from flask import Flask, g, request
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from werkzeug.exceptions import HTTPException, ServiceUnavailable

from .api.problems import problem
from .pages import login
from .request_context import error_page

_AGAIN_S = 5
_DAMAGED = (
    "The database cannot be read: its file is damaged. Whoever runs this dashboard puts a copy of it back; "
    "the server’s log has the database’s complaint."
)


def register(app: Flask) -> None:
    """Answer errors, and have a database that does not answer be no fault of the request's."""

    def database_away(error: Exception) -> ResponseReturnValue:
        app.logger.error("the database does not answer", exc_info=error)
        g.setdefault("token", None)  # whose it is cannot be asked, neither for the page's frame nor for its headers
        return _answer(ServiceUnavailable(retry_after=_AGAIN_S))

    app.register_error_handler(HTTPException, _answer)

    def damaged(error: Exception) -> ResponseReturnValue:
        if type(error) not in {DatabaseError, sqlite3.DatabaseError}:
            raise error  # a fault of ours, such as a statement that no database takes
        app.logger.error("the database cannot be read", exc_info=error)
        g.setdefault("token", None)
        return _answer(ServiceUnavailable(_DAMAGED, retry_after=_AGAIN_S))

    # What SQLite says of a file that is damaged or no database at all.
    app.register_error_handler(DatabaseError, damaged)
    app.register_error_handler(sqlite3.DatabaseError, damaged)
    # SQLite's own: the store asks it how often it was written without SQLAlchemy.
    for kind in (OperationalError, InterfaceError, NoConnectionError, sqlite3.OperationalError):
        app.register_error_handler(kind, database_away)


def _answer(error: HTTPException) -> ResponseReturnValue:
    if error.code is None or error.code < 400:
        return error.get_response()  # a redirect
    if request.path.startswith("/api/") or request.path.endswith(".json"):
        return problem(error)
    response = error.get_response()  # its headers say how to authorise, which methods there are, when to try again
    response.set_data(login.page(error.description) if error.code == 401 else error_page(error))
    return response
