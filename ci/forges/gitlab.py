"""GitLab, through python-gitlab: notes of a merge request, and permissions of users."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import requests
from gitlab import Gitlab
from gitlab.exceptions import GitlabError

from .forge_request import ForgeError, TransientError, check_answer, with_retries
from .sticky_comment import Comment

_PAGE = 100
_DEVELOPER = 30  # least access level that may push (docs.gitlab.com/api/access_requests)
_TIMEOUT_S = 30.0
_TRANSIENT = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)


def open_gitlab(token: str, url: str) -> Gitlab:
    """A client without retries: a failed request may have had its effect."""
    session = requests.Session()
    session.hooks["response"] = [_check]
    return Gitlab(
        url, private_token=token, timeout=_TIMEOUT_S, retry_transient_errors=False, keep_base_url=True, session=session
    )


def _check(response: requests.Response, *_: Any, **__: Any) -> None:
    """Checks an answer before python-gitlab, which would retry, and whose errors have no headers."""
    check_answer("GitLab", response.request.method or "", response.status_code, response.headers, response.text)


class GitLabThread:
    """The notes of one merge request."""

    def __init__(self, gitlab: Gitlab, project: str, number: int, *, author: str | None = None) -> None:
        """`project` is "group/name", `number` is the merge request's number in the project (iid)."""
        self._gitlab, self._number = gitlab, number
        self._project = gitlab.projects.get(project, lazy=True)
        self._notes = self._project.mergerequests.get(number, lazy=True).notes
        self.author = author or with_retries(self._own_name)
        self._ids: dict[str, int] = {}  # of users, by their names

    def head(self) -> str:
        """The newest commit of the merge request."""
        with _gitlab_errors(f"merge request {self._number}"):
            return str(self._project.mergerequests.get(self._number).sha)

    def comments(self) -> Iterable[Comment]:
        """All notes of people, oldest first."""
        with _gitlab_errors("its notes"):
            notes = list(self._notes.list(iterator=True, per_page=_PAGE, order_by="created_at", sort="asc"))
            self._ids |= {note.author["username"]: note.author["id"] for note in notes}
            return [_comment(note) for note in notes if not note.system]

    def create(self, body: str) -> Comment:
        with _gitlab_errors("a new note"):
            return _comment(self._notes.create({"body": body}))

    def update(self, comment: int, body: str) -> None:
        with _gitlab_errors(f"note {comment}"):
            self._notes.update(comment, {"body": body})

    def delete(self, comment: int) -> None:
        """Deletes a note, if it still exists."""
        with _gitlab_errors(f"note {comment}", gone_is_fine=True):
            self._notes.delete(comment)

    def may_write(self, user: str) -> bool:
        """Whether the author of a note has write access."""
        if user not in self._ids:
            return False
        with _gitlab_errors(f"the access of {user}", gone_is_fine=True):
            return bool(self._project.members_all.get(self._ids[user]).access_level >= _DEVELOPER)
        return False

    def _own_name(self) -> str:
        with _gitlab_errors("the token's user (a job's own token may not write notes: use a project access token)"):
            self._gitlab.auth()
            assert self._gitlab.user is not None
            return str(self._gitlab.user.username)


@contextmanager
def _gitlab_errors(request: str, *, gone_is_fine: bool = False) -> Iterator[None]:
    """Translates errors of python-gitlab into TransientError, if a later request may succeed, or ForgeError."""
    try:
        yield
    except TransientError as error:
        raise TransientError(
            f"{error} ({request})", error.wait_s, first_s=error.first_s, status=error.status
        ) from error
    except GitlabError as error:
        status = error.response_code
        if gone_is_fine and status == 404:
            return
        raise ForgeError(f"GitLab answered {status} ({request}): {str(error.error_message)[:200]}", status) from error
    except _TRANSIENT as error:
        raise TransientError(f"GitLab did not answer ({request}): {type(error).__name__}") from error
    except requests.RequestException as error:
        raise ForgeError(f"GitLab cannot be reached ({request}): {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ForgeError(f"GitLab's answer cannot be read ({request}): {error!r}") from error


def _comment(note: Any) -> Comment:
    created = datetime.fromisoformat(note.created_at)
    return Comment(id=note.id, author=note.author["username"], body=str(note.body), created=created)
