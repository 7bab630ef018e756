"""GitHub and GitLab as far as reports need them: one pull request, its comments, check runs, and who may write."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.ci.forges.forge_server import Answer, ForgeRequest, ForgeServer

BOT = "github-actions[bot]"
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class PostedComment:
    """A comment or note."""

    author: str
    body: str
    created: datetime
    edits: int = 0


@dataclass
class Conversation:
    """What both forges have."""

    head: str
    me: str | None = BOT  # None: the token may not ask who it is
    writers: frozenset[str] = frozenset()
    posted: dict[int, PostedComment] = field(default_factory=dict)
    next_id: int = 100

    def comment(self, author: str, body: str, created: datetime | None = None) -> int:
        """A further comment."""
        self.next_id += 1
        moment = created or _START + timedelta(seconds=self.next_id)
        self.posted[self.next_id] = PostedComment(author, body, moment)
        return self.next_id

    def mine(self) -> list[str]:
        """The texts of our comments."""
        return [each.body for each in self.posted.values() if each.author == (self.me or BOT)]

    def edit(self, number: int, body: str) -> None:
        """Another text."""
        self.posted[number].body = body
        self.posted[number].edits += 1


class GitHubServer(ForgeServer):
    """api.github.com."""

    def __init__(self, head: str) -> None:
        super().__init__("github_api.json", "")
        self.talk = Conversation(head)
        self.runs: dict[int, dict[str, Any]] = {}

    def answer(self, request: ForgeRequest) -> Answer:
        method, _, path = request.operation.partition(" ")
        if path == "/user":
            if self.talk.me is None:
                return 403, {"message": "Resource not accessible by integration"}, {}
            return 200, request.example | {"login": self.talk.me}, {}
        if path.endswith("/pulls/{pull_number}"):
            request.example["head"]["sha"] = self.talk.head
            return 200, request.example, {}
        if path.endswith("/permission"):
            may = request.path["username"] in self.talk.writers
            return 200, request.example | {"permission": "write" if may else "read"}, {}
        if "check-runs" in path:
            return self._checks(method, request)
        return self._comments(method, request)

    def _comments(self, method: str, request: ForgeRequest) -> Answer:
        if "comment_id" in request.path:
            number = int(request.path["comment_id"])
            if number not in self.talk.posted:
                return 404, {"message": "Not Found"}, {}
            if method == "delete":
                del self.talk.posted[number]
                return 204, None, {}
            self.talk.edit(number, request.body["body"])
            return 200, self._comment(request.example, number), {}
        if method == "post":
            number = self.talk.comment(self.talk.me or BOT, request.body["body"])
            return 201, self._comment(request.example, number), {}
        page, each = int(request.query.get("page", 1)), int(request.query.get("per_page", 30))
        numbers = sorted(self.talk.posted)
        links = {}
        if len(numbers) > page * each:
            address = f"{self.url}/repos/{request.path['owner']}/{request.path['repo']}/issues/1/comments"
            links = {"Link": f'<{address}?per_page={each}&page={page + 1}>; rel="next"'}
        shown = [self._comment(request.example[0], number) for number in numbers[(page - 1) * each : page * each]]
        return 200, shown, links

    def _comment(self, example: dict[str, Any], number: int) -> dict[str, Any]:
        posted = self.talk.posted[number]
        moment = posted.created.strftime("%Y-%m-%dT%H:%M:%SZ")
        user = example["user"] | {"login": posted.author}
        return example | {"id": number, "body": posted.body, "user": user, "created_at": moment}

    def _checks(self, method: str, request: ForgeRequest) -> Answer:
        if method == "get":
            found = [
                run
                for run in self.runs.values()
                if run["head_sha"] == request.path["ref"]
                and run["name"] == request.query.get("check_name", run["name"])
            ]
            return 200, {"total_count": len(found), "check_runs": found[::-1]}, {}
        output = dict(request.body["output"])
        annotations = output.pop("annotations", [])
        if method == "post":
            number = len(self.runs) + 1
            run = request.example | {"id": number} | request.body
            run["output"] = request.example["output"] | output | {"annotations_count": 0}
            run["sent"] = []
            self.runs[number] = run
        else:
            run = self.runs[int(request.path["check_run_id"])]
            run |= {name: each for name, each in request.body.items() if name != "output"}
        run["sent"] = run["sent"] + annotations
        run["output"]["annotations_count"] = len(run["sent"])
        return (201 if method == "post" else 200), run, {}


class GitLabServer(ForgeServer):
    """gitlab.com."""

    def __init__(self, head: str) -> None:
        super().__init__("gitlab_api.json", "/api/v4")
        self.talk = Conversation(head, me="project_5_bot")
        self._users: dict[str, int] = {}

    def answer(self, request: ForgeRequest) -> Answer:
        method, _, path = request.operation.partition(" ")
        if path == "/user":
            return 200, request.example | {"username": self.talk.me}, {}
        if path.endswith("/{merge_request_iid}"):
            return 200, request.example | {"sha": self.talk.head, "iid": int(request.path["merge_request_iid"])}, {}
        if "members" in path:
            name = next((name for name, number in self._users.items() if str(number) == request.path["user_id"]), None)
            if name is None or name.startswith("stranger"):
                return 404, {"message": "404 Not found"}, {}
            return 200, request.example | {"access_level": 30 if name in self.talk.writers else 20}, {}
        if "note_id" in request.path:
            number = int(request.path["note_id"])
            if number not in self.talk.posted:
                return 404, {"message": "404 Not found"}, {}
            if method == "delete":
                del self.talk.posted[number]
                return 204, None, {}
            self.talk.edit(number, request.body["body"])
            return 200, self._note(request.example, number), {}
        if method == "post":
            return 201, self._note(request.example, self.talk.comment(str(self.talk.me), request.body["body"])), {}
        page, each = int(request.query.get("page", 1)), int(request.query.get("per_page", 20))
        numbers = sorted(self.talk.posted, reverse=request.query.get("sort", "desc") == "desc")
        links = {"X-Page": str(page), "X-Per-Page": str(each)}
        if len(numbers) > page * each:
            address = f"{self.url}/api/v4/projects/group%2Fproject/merge_requests/7/notes"
            links["Link"] = f'<{address}?order_by=created_at&sort=asc&per_page={each}&page={page + 1}>; rel="next"'
            links["X-Next-Page"] = str(page + 1)
        return (
            200,
            [self._note(request.example[0], number) for number in numbers[(page - 1) * each : page * each]],
            links,
        )

    def _note(self, example: dict[str, Any], number: int) -> dict[str, Any]:
        posted = self.talk.posted[number]
        user = self._users.setdefault(posted.author, 1000 + len(self._users))
        author = example["author"] | {"username": posted.author, "id": user}
        # GitLab ends lines like HTTP forms do, and hints at the time in milliseconds.
        moment = posted.created.strftime("%Y-%m-%dT%H:%M:%S.123Z")
        return example | {"id": number, "body": posted.body, "author": author, "created_at": moment}
