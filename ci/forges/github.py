"""GitHub, through githubkit: comments and check runs of a pull request, and permissions of users.

Only needed fields of an answer are read: githubkit's models refuse an answer if any field differs from GitHub's
description, as GitHub's own examples do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from ssl import SSLContext
from typing import Any, Literal

import httpx
from githubkit import GitHub, TokenAuthStrategy
from githubkit.exception import GitHubException, RequestError, RequestFailed

from .forge_request import ForgeError, TransientError, check_answer, with_retries
from .sticky_comment import Comment

Conclusion = Literal["success", "failure", "neutral", "action_required", "cancelled", "timed_out"]
Level = Literal["notice", "warning", "failure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnnotation:
    """An annotation at a line of the repository, in plain text."""

    path: str
    line: int
    level: Level
    title: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """A check run with all its annotations; a request holds 50 of them."""

    name: str
    head: str
    conclusion: Conclusion | None  # None: in progress
    title: str
    summary: str
    annotations: tuple[CheckAnnotation, ...]
    workflow_run: str | None = None  # the workflow run whose artefacts it reports
    details_url: str | None = None  # of the log


ACTIONS_BOT = "github-actions[bot]"  # the author of comments by a workflow's token
_PAGE = 100
_ANNOTATIONS_EACH = 50  # per request
_WRITERS = {"admin", "maintain", "write"}
_NOT_OURS = {403, 404, 422}  # status codes of a change to another application's check run
_TIMEOUT_S = 30.0
_WRONG_ADDRESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


def open_github(token: str, api_url: str | None = None, *, timeout_s: float = _TIMEOUT_S) -> GitHub[TokenAuthStrategy]:
    """A client without retries: a failed request may have had its effect.

    githubkit's retries handle neither dates in Retry-After nor answers without JSON.
    """
    return GitHub(
        TokenAuthStrategy(token),
        base_url=api_url,
        auto_retry=False,
        timeout=timeout_s,
        http_cache=False,
        event_hooks={"request": [], "response": [_check]},
        user_agent="warpwatch",
        ssl_verify=_certificates(),
    )


@cache
def _certificates() -> SSLContext:
    """The trusted certificates. Without it, githubkit would read all of them again for each request: 30 ms of CPU."""
    return httpx.create_ssl_context()


def _check(response: httpx.Response) -> None:
    response.read()
    check_answer("GitHub", response.request.method, response.status_code, response.headers, response.text)


class GitHubThread:
    """The conversation of one pull request."""

    def __init__(self, github: GitHub[Any], repository: str, number: int, *, author: str | None = None) -> None:
        """`repository` is "owner/name". The default author is the token's user."""
        self._github, self._number = github, number
        self._owner, _, self._name = repository.partition("/")
        self.author = author or self._own_name()

    def head(self) -> str:
        """The newest commit of the pull request."""
        with github_errors(f"(pull request {self._number})"):
            return str(self._github.rest.pulls.get(self._owner, self._name, self._number).json()["head"]["sha"])

    def comments(self) -> Iterable[Comment]:
        """All comments, page by page."""
        with github_errors("(its comments)"):
            pages: Iterable[Any] = self._github.rest.paginate(
                self._github.rest.issues.list_comments,
                map_func=lambda page: page.json(),
                owner=self._owner,
                repo=self._name,
                issue_number=self._number,
                per_page=_PAGE,
            )
            return [_comment(each) for each in pages]

    def create(self, body: str) -> Comment:
        with github_errors("(a new comment)"):
            created = self._github.rest.issues.create_comment(self._owner, self._name, self._number, body=body)
            return _comment(created.json())

    def update(self, comment: int, body: str) -> None:
        with github_errors(f"(comment {comment})"):
            self._github.rest.issues.update_comment(self._owner, self._name, comment, body=body)

    def delete(self, comment: int) -> None:
        """Deletes a comment, if it still exists."""
        with github_errors(f"(comment {comment})", gone_is_fine=True):
            self._github.rest.issues.delete_comment(self._owner, self._name, comment)

    def may_write(self, user: str) -> bool:
        with github_errors(f"(the permission of {user})", gone_is_fine=True):
            answer = self._github.rest.repos.get_collaborator_permission_level(self._owner, self._name, user)
            return answer.json()["permission"] in _WRITERS
        return False

    def put_check_run(self, report: CheckRun, *, sleep: Callable[[float], None] | None = None) -> bool:
        """Makes this the newest check run of its name at the commit. Returns whether it was not before.

        Nothing is sent twice. A check run in progress is completed.
        """
        return with_retries(lambda: self._put_check_run(report), sleep=sleep)

    def _put_check_run(self, report: CheckRun) -> bool:
        """Creates the check run, or sends its missing annotations, which GitHub appends.

        It exists if the newest one of its name has the same content: an older one was replaced since. `external_id`
        has the workflow run before the digest, for repository.py.
        """
        digest = sha256(repr(replace(report, details_url=None)).encode()).hexdigest()
        key = f"{report.workflow_run}:{digest}" if report.workflow_run else digest
        checks, repository = self._github.rest.checks, (self._owner, self._name)
        with github_errors(f"(the check runs of {report.head[:8]}; the token needs checks: write)"):
            listed = checks.list_for_ref(
                *repository, report.head, check_name=report.name, per_page=_PAGE, filter_="all"
            ).json()["check_runs"]
            newest: Any = max(
                listed, key=lambda each: int(each["id"]), default={}
            )  # the only one that counts for a branch
            exists = bool(newest) and newest["external_id"] == key
            if newest and report.conclusion == "cancelled" and newest.get("details_url") != report.details_url:
                return False  # a cancelled run must not replace the result of a later run
            sent = newest["output"]["annotations_count"] if exists else _ANNOTATIONS_EACH
            current = newest if exists else self._begin_check_run(report, key, newest)
            for first in range(sent, len(report.annotations), _ANNOTATIONS_EACH):
                checks.update(*repository, current["id"], output=_output(report, first))
        return not exists

    def _begin_check_run(self, report: CheckRun, key: str, newest: Mapping[str, Any]) -> Any:
        """Creates the check run, or completes the newest one if it is in progress and ours."""
        checks, repository = self._github.rest.checks, (self._owner, self._name)
        state: dict[str, Any] = {"status": "in_progress"}
        if report.conclusion is not None:
            state = {"status": "completed", "conclusion": report.conclusion}
        if report.details_url is not None:
            state["details_url"] = report.details_url
        state |= {"external_id": key, "output": _output(report, 0)}
        if newest and newest["status"] != "completed":
            try:
                return checks.update(*repository, newest["id"], **state).json()
            except RequestFailed as error:
                if error.response.status_code not in _NOT_OURS:
                    raise
        return checks.create(*repository, name=report.name, head_sha=report.head, **state).json()

    def _own_name(self) -> str:
        """The token's user; the bot's name if the token may not read it. The first comment corrects a wrong name
        (sticky_comment.py)."""

        def request() -> str:
            with github_errors("(the token's user)"):
                return str(self._github.rest.users.get_authenticated().json()["login"])

        try:
            return with_retries(request)
        except ForgeError:
            return ACTIONS_BOT


@contextmanager
def github_errors(request: str, *, gone_is_fine: bool = False) -> Iterator[None]:
    """Translates errors of githubkit into TransientError, if a later request may succeed, or ForgeError.

    `request` describes the request in the message.
    """
    try:
        yield
    except RequestFailed as error:
        status = error.response.status_code
        if gone_is_fine and status == 404:
            return
        raise ForgeError(f"GitHub answered {status} {request}: {_reason(error)}", status) from error
    except RequestError as error:
        cause = error.exc
        if isinstance(cause, TransientError):
            raise TransientError(
                f"{cause} {request}", cause.wait_s, first_s=cause.first_s, status=cause.status
            ) from error
        if isinstance(cause, httpx.TransportError) and not isinstance(cause, _WRONG_ADDRESS):
            raise TransientError(f"GitHub did not answer {request}: {type(cause).__name__}") from error
        raise ForgeError(f"GitHub cannot be reached {request}: {cause}") from error
    except (GitHubException, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ForgeError(f"GitHub's answer cannot be read {request}: {error!r}") from error


def _reason(error: RequestFailed) -> str:
    try:
        answer = error.response.json()
    except ValueError:
        return "no reason given"
    return str(answer.get("message", "no reason given"))[:200] if isinstance(answer, dict) else "no reason given"


def _comment(fields: Mapping[str, Any]) -> Comment:
    author = fields["user"]["login"] if fields["user"] else ""  # None: a deleted user
    created = datetime.fromisoformat(fields["created_at"])
    return Comment(id=fields["id"], author=author, body=fields["body"] or "", created=created)


def _output(report: CheckRun, sent: int) -> Any:
    return {
        "title": report.title,
        "summary": report.summary,
        "annotations": [_fields(each) for each in report.annotations[sent : sent + _ANNOTATIONS_EACH]],
    }


def _fields(annotation: CheckAnnotation) -> dict[str, Any]:
    return {
        "path": annotation.path,
        "start_line": annotation.line,
        "end_line": annotation.line,
        "annotation_level": annotation.level,
        "title": annotation.title,
        "message": annotation.message,
    }
