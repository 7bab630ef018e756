"""GitHub's issues on this machine: every request is held to the models that githubkit made of its description."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from githubkit_schemas.latest import models
from pydantic import ValidationError

from tests.answering import answering

_BODIES = {
    ("POST", "issues"): models.ReposOwnerRepoIssuesPostBody,
    ("PATCH", "issue"): models.ReposOwnerRepoIssuesIssueNumberPatchBody,
    ("POST", "comments"): models.ReposOwnerRepoIssuesIssueNumberCommentsPostBody,
}
_PATH = re.compile(r"/repos/(?P<repo>[\w.-]+/[\w.-]+)/issues(?:/(?P<number>\d+)(?P<comments>/comments)?)?")
_WHEN = "2026-01-01T00:00:00Z"


class GitHubServer(ThreadingHTTPServer):
    """Its issues with their comments, what it refused, and after how many requests the next one gets no answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issues: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.refused: list[str] = []
        self.tokens: set[str | None] = set()
        self.silent_after: int | None = None  # writes that are done and then not answered
        self.answer: int | None = None  # a status instead of work
        self.answer_times: int | None = None  # so often; None: always
        self.answer_headers: dict[str, str] = {}
        self.deleted: set[int] = set()  # issues
        self.may_label = True  # whether the token may push

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def issue(self, given: dict[str, Any]) -> dict[str, Any]:
        """A new one, with all that GitHub's description requires."""
        number = len(self.issues) + 1
        here = f"{self.url}/repos/o/r/issues/{number}"
        made = {
            "id": number,
            "node_id": f"I{number}",
            "url": here,
            "repository_url": f"{self.url}/repos/o/r",
            "labels_url": here + "/labels{/name}",
            "comments_url": here + "/comments",
            "events_url": here + "/events",
            "html_url": here,
            "number": number,
            "state": "open",
            "state_reason": None,
            "title": given["title"],
            "body": given.get("body"),
            "user": None,
            "assignee": None,
            "milestone": None,
            "locked": False,
            "comments": 0,
            "closed_at": None,
            "created_at": _WHEN,
            "updated_at": _WHEN,
            "author_association": "NONE",
            "labels": [{"name": label} for label in given.get("labels", [])],
            "assignees": [],
        }
        models.Issue.model_validate(made)
        self.issues.append(made)
        self.comments[number] = []
        return made

    def comment(self, number: int, given: dict[str, Any]) -> dict[str, Any]:
        """A new one of an issue."""
        ids = sum(map(len, self.comments.values())) + 1
        here = f"{self.url}/repos/o/r/issues/comments/{ids}"
        made = {
            "id": ids,
            "node_id": f"C{ids}",
            "url": here,
            "html_url": here,
            "body": given["body"],
            "user": None,
            "created_at": _WHEN,
            "updated_at": _WHEN,
            "issue_url": f"{self.url}/repos/o/r/issues/{number}",
            "author_association": "NONE",
        }
        models.IssueComment.model_validate(made)
        self.comments[number].append(made)
        return made


class _Handler(BaseHTTPRequestHandler):
    server: GitHubServer

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def _serve(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.tokens.add(self.headers.get("Authorization"))
        if self.server.answer is not None and self.server.answer_times != 0:
            if self.server.answer_times is not None:
                self.server.answer_times -= 1
            self._answer(self.server.answer, {"message": "as configured"}, self.server.answer_headers)
            return
        parts = urlsplit(self.path)
        found = _PATH.fullmatch(parts.path)
        if found is None:
            self._answer(404, {"message": f"no such path {parts.path}"})
            return
        number = int(found["number"]) if found["number"] else None
        if number in self.server.deleted:
            self._answer(410, {"message": "This issue was deleted"})
            return
        kind = "comments" if found["comments"] else "issue" if number else "issues"
        given: dict[str, Any] = {}
        if method != "GET":
            given = json.loads(body)
            try:
                _BODIES[method, kind].model_validate(given, strict=True)
            except (KeyError, ValidationError) as error:
                self.server.refused.append(f"{method} {self.path}: {error}")
                self._answer(422, {"message": str(error)})
                return
        answer = self._work(method, kind, number, given, {key: its[0] for key, its in parse_qs(parts.query).items()})
        if method != "GET" and self.server.silent_after is not None:
            self.server.silent_after -= 1
            if self.server.silent_after < 0:
                self.server.silent_after = None
                self.connection.close()  # done, and the client gets no answer
                return
        self._answer(201 if method == "POST" else 200, answer)

    def _work(self, method: str, kind: str, number: int | None, given: dict[str, Any], asked: dict[str, str]) -> Any:
        server, page, size = self.server, int(asked.get("page", 1)), int(asked.get("per_page", 30))
        if kind == "issues" and method == "POST":
            return server.issue(given if server.may_label else given | {"labels": []})
        if kind == "issues":
            wanted = set(asked.get("labels", "").split(",")) - {""}
            there = [i for i in reversed(server.issues) if i["number"] not in server.deleted]
            its = [i for i in there if wanted <= {label["name"] for label in i["labels"]}]
            its = [i for i in its if asked.get("state", "open") in ("all", i["state"])]
            return its[(page - 1) * size : page * size]
        assert number is not None
        if kind == "comments" and method == "POST":
            return server.comment(number, given)
        if kind == "comments":
            return server.comments[number][(page - 1) * size : page * size]
        if method == "PATCH":
            server.issues[number - 1].update(given)
        return server.issues[number - 1]

    def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def github() -> Iterator[GitHubServer]:
    """A server that answers until the block ends."""
    with answering(GitHubServer()) as server:
        yield server
