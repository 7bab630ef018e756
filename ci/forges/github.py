"""GitHub, through githubkit: a pull request's conversation, its check runs, and who may write to the repository.

Of an answer only what is needed is read: githubkit's models of whole answers refuse one as soon as a field of no
interest differs from the description they were made of, as GitHub's own examples do.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any

from githubkit import GitHub, TokenAuthStrategy
from githubkit.exception import GitHubException, RateLimitExceeded, RequestError, RequestFailed

from warpwatch.ci.forges.retrying import ForgeError, TransientError, again
from warpwatch.ci.forges.sticky import Comment
from warpwatch.ci.reports.check_run import Annotation, CheckRun

ACTIONS_BOT = "github-actions[bot]"  # whom a workflow's own token writes as
_PAGE = 100
_ANNOTATIONS_EACH = 50  # of a request
_WRITERS = {"admin", "maintain", "write"}
_TIMEOUT_S = 30.0


def open_github(token: str, api_url: str | None = None) -> GitHub[TokenAuthStrategy]:
    """A client that asks nothing twice by itself: what failed may have been done."""
    return GitHub(TokenAuthStrategy(token), base_url=api_url, auto_retry=False, timeout=_TIMEOUT_S)


class GitHubThread:
    """The conversation of one pull request."""

    def __init__(self, github: GitHub[Any], repository: str, number: int, *, author: str | None = None) -> None:
        """`repository` is "owner/name". Without an author the token is asked for its own."""
        self._github, self._number = github, number
        self._owner, _, self._name = repository.partition("/")
        self.author = author or again(self._own_name)

    def head(self) -> str:
        """The newest commit of the pull request."""
        with _said(f"pull request {self._number}"):
            return str(self._github.rest.pulls.get(self._owner, self._name, self._number).json()["head"]["sha"])

    def comments(self) -> Iterable[Comment]:
        """All comments, page by page."""
        with _said("its comments"):
            pages: Iterable[Any] = self._github.rest.paginate(
                self._github.rest.issues.list_comments, map_func=lambda page: page.json(), owner=self._owner,
                repo=self._name, issue_number=self._number, per_page=_PAGE,
            )  # fmt: skip
            return [_comment(each) for each in pages]

    def create(self, body: str) -> Comment:
        """A further comment."""
        with _said("a new comment"):
            made = self._github.rest.issues.create_comment(self._owner, self._name, self._number, body=body)
            return _comment(made.json())

    def update(self, comment: int, body: str) -> None:
        """Another text for a comment."""
        with _said(f"comment {comment}"):
            self._github.rest.issues.update_comment(self._owner, self._name, comment, body=body)

    def delete(self, comment: int) -> None:
        """Another job may have been first."""
        with _said(f"comment {comment}", gone_is_fine=True):
            self._github.rest.issues.delete_comment(self._owner, self._name, comment)

    def may_write(self, user: str) -> bool:
        """Whether that user may push to the repository."""
        with _said(f"the permission of {user}", gone_is_fine=True):
            asked = self._github.rest.repos.get_collaborator_permission_level(self._owner, self._name, user)
            return asked.json()["permission"] in _WRITERS
        return False

    def put_check_run(self, report: CheckRun, *, sleep: Callable[[float], None] = time.sleep) -> bool:
        """Makes this the newest check run of its name at the commit; whether it was not before.

        What was sent of it is not sent again.
        """
        return again(lambda: self._put_check_run(report), sleep=sleep)

    def _put_check_run(self, report: CheckRun) -> bool:
        """Annotations add up over requests, so it goes on after as many as there are.

        It is there if the newest of its name says the same: an older one was taken back since. The run of the workflow
        stands before the digest, for repository.py to find.
        """
        digest = sha256(repr(report).encode()).hexdigest()
        key = f"{report.workflow_run}:{digest}" if report.workflow_run else digest
        checks, place = self._github.rest.checks, (self._owner, self._name)
        with _said(f"the check runs of {report.head[:8]}; the token needs checks: write"):
            listed = checks.list_for_ref(
                *place, report.head, check_name=report.name, per_page=_PAGE, filter_="all"
            ).json()["check_runs"]  # fmt: skip
            newest = max(listed, key=lambda each: int(each["id"]), default=None)  # which alone counts for a branch
            run = newest if newest is not None and newest["external_id"] == key else None
            sent = run["output"]["annotations_count"] if run is not None else _ANNOTATIONS_EACH
            made = run or checks.create(
                *place, name=report.name, head_sha=report.head, external_id=key, status="completed",
                conclusion=report.conclusion, output=_output(report, 0),
            ).json()  # fmt: skip
            for first in range(sent, len(report.annotations), _ANNOTATIONS_EACH):
                checks.update(*place, made["id"], output=_output(report, first))
        return run is None

    def _own_name(self) -> str:
        try:
            with _said("whose token it is"):
                return str(self._github.rest.users.get_authenticated().json()["login"])
        except ForgeError:
            return ACTIONS_BOT  # a workflow's token may not ask


@contextmanager
def _said(what: str, *, gone_is_fine: bool = False) -> Iterator[None]:
    """githubkit's errors as ours: what to wait for, and what will not do."""
    try:
        yield
    except RateLimitExceeded as error:
        raise TransientError(f"GitHub limits our rate ({what})", error.retry_after.total_seconds()) from error
    except RequestFailed as error:
        status = error.response.status_code
        if gone_is_fine and status == 404:
            return
        if status >= 500 or status == 429:
            raise TransientError(f"GitHub answered {status} ({what})") from error
        raise ForgeError(f"GitHub answered {status} ({what}): {_reason(error)}") from error
    except RequestError as error:
        raise TransientError(f"GitHub did not answer ({what}): {type(error.exc).__name__}") from error
    except (GitHubException, KeyError, TypeError, ValueError) as error:
        raise ForgeError(f"GitHub's answer cannot be read ({what}): {error!r}") from error


def _reason(error: RequestFailed) -> str:
    try:
        told = error.response.json()
    except ValueError:
        return "no reason given"
    return str(told.get("message", "no reason given"))[:200] if isinstance(told, dict) else "no reason given"


def _comment(told: Mapping[str, Any]) -> Comment:
    author = told["user"]["login"] if told["user"] else ""  # None: whoever it was is gone
    created = datetime.fromisoformat(told["created_at"])
    return Comment(id=told["id"], author=author, body=told["body"] or "", created=created)


def _output(report: CheckRun, sent: int) -> Any:
    return {
        "title": report.title,
        "summary": report.summary,
        "annotations": [_annotation(each) for each in report.annotations[sent : sent + _ANNOTATIONS_EACH]],
    }


def _annotation(remark: Annotation) -> dict[str, Any]:
    return {
        "path": remark.path, "start_line": remark.line, "end_line": remark.line, "annotation_level": remark.level,
        "title": remark.title, "message": remark.message,
    }  # fmt: skip
