"""GitHub's REST API as far as the workflows use it, before a real git repository, on this machine.

Bodies are held to GitHub's published schema, as githubkit generates it; a key that the schema does not have is refused.
Answers that need a commit read it from git.
"""

import base64
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from githubkit_schemas.latest import models
from pydantic import BaseModel, ValidationError

from tests.answering import answering

NAME = "ada/kernels"


@dataclass
class Request:
    """One that was asked."""

    method: str
    path: str  # below the repository
    body: dict[str, Any] | None


class GitHubServer(ThreadingHTTPServer):
    """One repository; what is on it is set before it is asked."""

    def __init__(self, repository: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repository = repository  # bare
        self.token = "ghs_of_the_job"
        self.writers = {"ada"}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, dict[str, Any]] = {}
        self.check_runs: dict[int, dict[str, Any]] = {}
        self.requests: list[Request] = []
        self.failing: dict[str, list[int]] = {}  # statuses instead of answers, by a pattern of method and path
        self.fails_after_work = False  # whether what is asked for is done all the same

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add_pull(self, number: int, *, head: str, base: str, source: str | None = NAME, branch: str = "topic") -> None:
        """An open pull request; its commit is in the repository, as GitHub keeps those of forks too."""
        repo = None if source is None else {"full_name": source, "owner": {"login": source.split("/")[0]}}
        self.pulls[number] = {
            "number": number,
            "state": "open",
            "base": {"sha": base, "ref": "main"},
            "head": {"sha": head, "ref": branch, "repo": repo},
        }

    def branch(self, name: str) -> str | None:
        """Its commit."""
        done = self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{name}", check=False)
        return done.stdout.strip() or None

    def bodies(self, method: str, path: str) -> list[dict[str, Any] | None]:
        """Of the requests like this."""
        return [each.body for each in self.requests if each.method == method and re.fullmatch(path, each.path)]

    def failure(self, request: str) -> int | None:
        """The status that this request meets instead of its answer, if any."""
        for pattern, statuses in self.failing.items():
            if statuses and re.fullmatch(pattern, request):
                return statuses.pop(0)
        return None

    def git(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """In the repository."""
        return subprocess.run(["git", *words], cwd=self.repository, check=check, capture_output=True, text=True)


@dataclass
class RefusedError(Exception):
    """An answer other than success."""

    status: int
    message: str = ""
    errors: list[Any] = field(default_factory=list)


Answer = tuple[int, Any]


def _repository(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    return 200, {"full_name": NAME, "default_branch": "main"}


def _pull(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    if int(found["number"]) not in server.pulls:
        raise RefusedError(404, "Not Found")
    return 200, server.pulls[int(found["number"])]


def _pulls(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    owner, _, branch = query["head"][0].partition(":")
    listed = [
        each
        for each in server.pulls.values()
        if each["state"] == query["state"][0]
        and each["head"]["ref"] == branch
        and each["head"]["repo"]
        and each["head"]["repo"]["owner"]["login"] == owner
    ]
    return 200, listed


def _compare(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    merge_base = server.git("merge-base", found["base"], found["head"]).stdout.strip()
    lines = server.git("diff", "--name-status", "-M", merge_base, found["head"]).stdout.splitlines()
    files = []
    for line in lines[:300]:
        status, *names = line.split("\t")
        files.append({"filename": names[-1], "status": status})
        if len(names) > 1:
            files[-1]["previous_filename"] = names[0]
    return 200, {"merge_base_commit": {"sha": merge_base}, "files": files}


def _contents(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    done = server.git("show", f"main:{found['path']}", check=False)
    if done.returncode:
        raise RefusedError(404, "Not Found")
    return 200, {"type": "file", "encoding": "base64", "content": base64.encodebytes(done.stdout.encode()).decode()}


def _permission(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    if found["user"] == "nobody":
        raise RefusedError(404, "nobody is not a user")
    return 200, {"permission": "write" if found["user"] in server.writers else "read"}


def _ref(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    commit = server.branch(found["branch"])
    if commit is None:
        raise RefusedError(404, "Not Found")
    return 200, {"ref": f"refs/heads/{found['branch']}", "object": {"sha": commit, "type": "commit"}}


def _make_ref(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    if server.branch(body["ref"].removeprefix("refs/heads/")):
        raise RefusedError(422, "Reference already exists")
    return _set_ref(server, body["ref"], body["sha"], 201)


def _move_ref(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    if server.branch(found["branch"]) is None:
        raise RefusedError(422, "Reference does not exist")
    return _set_ref(server, f"refs/heads/{found['branch']}", body["sha"], 200)


def _set_ref(server: GitHubServer, ref: str, commit: str, status: int) -> Answer:
    if server.git("cat-file", "-e", f"{commit}^{{commit}}", check=False).returncode:
        raise RefusedError(422, "Object does not exist")
    server.git("update-ref", ref, commit)
    return status, {"ref": ref, "object": {"sha": commit}}


def _comments(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    return 200, list(server.comments.values()) if query.get("page", ["1"]) == ["1"] else []


def _comment(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    made = {
        "id": len(server.comments) + 1,
        "user": {"login": "github-actions[bot]"},
        "body": body["body"],
        "created_at": "2026-11-01T12:00:00Z",
    }
    server.comments[made["id"]] = made
    return 201, made


def _edit(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    server.comments[int(found["comment"])] |= body
    return 200, server.comments[int(found["comment"])]


def _check_runs(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    listed = [
        each
        for each in server.check_runs.values()
        if each["head_sha"] == found["commit"] and each["name"] == query["check_name"][0]
    ]
    return 200, {"total_count": len(listed), "check_runs": listed}


def _check_run(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    is_over = body["status"] == "completed"
    _hold_to(
        models.ReposOwnerRepoCheckRunsPostBodyOneof0 if is_over else models.ReposOwnerRepoCheckRunsPostBodyOneof1, body
    )
    made = {"id": len(server.check_runs) + 1, "app": {"slug": "github-actions"}, "details_url": None, **body}
    made["output"] = {**body["output"], "annotations_count": len(body["output"].get("annotations", []))}
    server.check_runs[made["id"]] = made
    return 201, made


def _edit_check_run(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    run = server.check_runs[int(found["run"])]
    run |= body | {"output": {**run["output"], **body.get("output", {})}}
    return 200, run


def _matching_refs(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    listed = server.git("for-each-ref", "--format=%(refname) %(objectname)", f"refs/heads/{found['prefix']}*")
    lines = (line.split() for line in listed.stdout.splitlines())
    return 200, [{"ref": name, "object": {"sha": commit, "type": "commit"}} for name, commit in lines]


def _delete_ref(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    if server.branch(found["branch"]) is None:
        raise RefusedError(422, "Reference does not exist")
    server.git("update-ref", "-d", f"refs/heads/{found['branch']}")
    return 204, None


def _reaction(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    return 201, {}


def _started(server: GitHubServer, found: re.Match[str], query: dict[str, Any], body: Any) -> Answer:
    return 204, None


_ROUTES: tuple[tuple[str, str, type[BaseModel] | None, Callable[..., Answer]], ...] = (
    ("GET", r"", None, _repository),
    ("GET", r"/pulls/(?P<number>\d+)", None, _pull),
    ("GET", r"/pulls", None, _pulls),
    ("GET", r"/compare/(?P<base>[0-9a-f]{40})\.\.\.(?P<head>[0-9a-f]{40})", None, _compare),
    ("GET", r"/contents/(?P<path>.+)", None, _contents),
    ("GET", r"/collaborators/(?P<user>[\w-]+)/permission", None, _permission),
    ("GET", r"/git/ref/heads/(?P<branch>[\w/-]+)", None, _ref),
    ("GET", r"/git/matching-refs/heads/(?P<prefix>[\w/-]+)", None, _matching_refs),
    ("DELETE", r"/git/refs/heads/(?P<branch>[\w/-]+)", None, _delete_ref),
    ("POST", r"/git/refs", models.ReposOwnerRepoGitRefsPostBody, _make_ref),
    ("PATCH", r"/git/refs/heads/(?P<branch>[\w/-]+)", models.ReposOwnerRepoGitRefsRefPatchBody, _move_ref),
    (
        "POST",
        r"/actions/workflows/[\w.-]+/dispatches",
        models.ReposOwnerRepoActionsWorkflowsWorkflowIdDispatchesPostBody,
        _started,
    ),
    ("GET", r"/issues/\d+/comments", None, _comments),
    ("POST", r"/issues/\d+/comments", models.ReposOwnerRepoIssuesIssueNumberCommentsPostBody, _comment),
    ("PATCH", r"/issues/comments/(?P<comment>\d+)", models.ReposOwnerRepoIssuesCommentsCommentIdPatchBody, _edit),
    ("GET", r"/commits/(?P<commit>[0-9a-f]{40})/check-runs", None, _check_runs),
    ("POST", r"/check-runs", None, _check_run),
    ("PATCH", r"/check-runs/(?P<run>\d+)", None, _edit_check_run),
    (
        "POST",
        r"/issues/comments/\d+/reactions",
        models.ReposOwnerRepoIssuesCommentsCommentIdReactionsPostBody,
        _reaction,
    ),
)


class _Handler(BaseHTTPRequestHandler):
    server: GitHubServer

    def _answer(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            status, content = self._routed(body)
        except RefusedError as refused:
            status, content = refused.status, {"message": refused.message, "errors": refused.errors}
        text = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _routed(self, body: Any) -> Answer:
        if self.headers["Authorization"] not in (f"token {self.server.token}", f"Bearer {self.server.token}"):
            raise RefusedError(401, "Bad credentials")
        address = urlsplit(self.path)
        path = address.path.removeprefix(f"/repos/{NAME}")
        if path == address.path:
            raise RefusedError(404, "Not Found")
        self.server.requests.append(Request(self.command, path, body))
        for method, pattern, schema, answer in _ROUTES:
            found = re.fullmatch(pattern, path)
            if method == self.command and found:
                _hold_to(schema, body)
                failure = self.server.failure(f"{self.command} {path}")
                if failure and not self.server.fails_after_work:
                    raise RefusedError(failure, "as configured")
                done = answer(self.server, found, parse_qs(address.query), body)
                if failure:
                    raise RefusedError(failure, "as configured")
                return done
        raise RefusedError(404, "Not Found")

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


def _hold_to(schema: type[BaseModel] | None, body: Any) -> None:
    if schema is None:
        return
    known = {field.alias or name for name, field in schema.model_fields.items()}
    if extra := set(body) - known:
        raise RefusedError(422, f"no such keys: {sorted(extra)}")
    try:
        schema.model_validate(body)
    except ValidationError as error:
        raise RefusedError(422, "Validation Failed", error.errors(include_context=False)) from error


@contextmanager
def github(repository: Path) -> Iterator[GitHubServer]:
    """A server that answers until the block ends."""
    with answering(GitHubServer(repository)) as server:
        yield server
