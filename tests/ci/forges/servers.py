"""GitHub and GitLab as far as reports need them: one pull request, its comments, check runs, and who may write."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.ci.forges.forge_server import Answer, Asked, ForgeServer

BOT = "github-actions[bot]"
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Said:
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
    said: dict[int, Said] = field(default_factory=dict)
    next_id: int = 100

    def say(self, author: str, body: str, created: datetime | None = None) -> int:
        """A further comment."""
        self.next_id += 1
        moment = created or _START + timedelta(seconds=self.next_id)
        self.said[self.next_id] = Said(author, body, moment)
        return self.next_id

    def mine(self) -> list[str]:
        """The texts of our comments."""
        return [each.body for each in self.said.values() if each.author == (self.me or BOT)]

    def edit(self, number: int, body: str) -> None:
        """Another text."""
        self.said[number].body = body
        self.said[number].edits += 1


class GitHubServer(ForgeServer):
    """api.github.com."""

    def __init__(self, head: str) -> None:
        super().__init__("github_api.json", "")
        self.talk = Conversation(head)
        self.runs: dict[int, dict[str, Any]] = {}

    def answer(self, asked: Asked) -> Answer:
        method, _, path = asked.operation.partition(" ")
        if path == "/user":
            if self.talk.me is None:
                return 403, {"message": "Resource not accessible by integration"}, {}
            return 200, asked.example | {"login": self.talk.me}, {}
        if path.endswith("/pulls/{pull_number}"):
            asked.example["head"]["sha"] = self.talk.head
            return 200, asked.example, {}
        if path.endswith("/permission"):
            may = asked.path["username"] in self.talk.writers
            return 200, asked.example | {"permission": "write" if may else "read"}, {}
        if "check-runs" in path:
            return self._checks(method, asked)
        return self._comments(method, asked)

    def _comments(self, method: str, asked: Asked) -> Answer:
        if "comment_id" in asked.path:
            number = int(asked.path["comment_id"])
            if number not in self.talk.said:
                return 404, {"message": "Not Found"}, {}
            if method == "delete":
                del self.talk.said[number]
                return 204, None, {}
            self.talk.edit(number, asked.body["body"])
            return 200, self._comment(asked.example, number), {}
        if method == "post":
            number = self.talk.say(self.talk.me or BOT, asked.body["body"])
            return 201, self._comment(asked.example, number), {}
        page, each = int(asked.query.get("page", 1)), int(asked.query.get("per_page", 30))
        numbers = sorted(self.talk.said)
        links = {}
        if len(numbers) > page * each:
            address = f"{self.url}/repos/{asked.path['owner']}/{asked.path['repo']}/issues/1/comments"
            links = {"Link": f'<{address}?per_page={each}&page={page + 1}>; rel="next"'}
        shown = [self._comment(asked.example[0], number) for number in numbers[(page - 1) * each : page * each]]
        return 200, shown, links

    def _comment(self, example: dict[str, Any], number: int) -> dict[str, Any]:
        said = self.talk.said[number]
        moment = said.created.strftime("%Y-%m-%dT%H:%M:%SZ")
        user = example["user"] | {"login": said.author}
        return example | {"id": number, "body": said.body, "user": user, "created_at": moment}

    def _checks(self, method: str, asked: Asked) -> Answer:
        if method == "get":
            found = [
                run
                for run in self.runs.values()
                if run["head_sha"] == asked.path["ref"] and run["name"] == asked.query.get("check_name", run["name"])
            ]
            return 200, {"total_count": len(found), "check_runs": found[::-1]}, {}
        output = dict(asked.body["output"])
        annotations = output.pop("annotations", [])
        if method == "post":
            number = len(self.runs) + 1
            run = asked.example | {"id": number} | asked.body
            run["output"] = asked.example["output"] | output | {"annotations_count": 0}
            run["sent"] = []
            self.runs[number] = run
        else:
            run = self.runs[int(asked.path["check_run_id"])]
            run |= {name: each for name, each in asked.body.items() if name != "output"}
        run["sent"] = run["sent"] + annotations
        run["output"]["annotations_count"] = len(run["sent"])
        return (201 if method == "post" else 200), run, {}


class GitLabServer(ForgeServer):
    """gitlab.com."""

    def __init__(self, head: str) -> None:
        super().__init__("gitlab_api.json", "/api/v4")
        self.talk = Conversation(head, me="project_5_bot")
        self._users: dict[str, int] = {}

    def answer(self, asked: Asked) -> Answer:
        method, _, path = asked.operation.partition(" ")
        if path == "/user":
            return 200, asked.example | {"username": self.talk.me}, {}
        if path.endswith("/{merge_request_iid}"):
            return 200, asked.example | {"sha": self.talk.head, "iid": int(asked.path["merge_request_iid"])}, {}
        if "members" in path:
            name = next((name for name, number in self._users.items() if str(number) == asked.path["user_id"]), None)
            if name is None or name.startswith("stranger"):
                return 404, {"message": "404 Not found"}, {}
            return 200, asked.example | {"access_level": 30 if name in self.talk.writers else 20}, {}
        if "note_id" in asked.path:
            number = int(asked.path["note_id"])
            if number not in self.talk.said:
                return 404, {"message": "404 Not found"}, {}
            if method == "delete":
                del self.talk.said[number]
                return 204, None, {}
            self.talk.edit(number, asked.body["body"])
            return 200, self._note(asked.example, number), {}
        if method == "post":
            return 201, self._note(asked.example, self.talk.say(str(self.talk.me), asked.body["body"])), {}
        page, each = int(asked.query.get("page", 1)), int(asked.query.get("per_page", 20))
        numbers = sorted(self.talk.said, reverse=asked.query.get("sort", "desc") == "desc")
        links = {"X-Page": str(page), "X-Per-Page": str(each)}
        if len(numbers) > page * each:
            address = f"{self.url}/api/v4/projects/group%2Fproject/merge_requests/7/notes"
            links["Link"] = f'<{address}?order_by=created_at&sort=asc&per_page={each}&page={page + 1}>; rel="next"'
            links["X-Next-Page"] = str(page + 1)
        return 200, [self._note(asked.example[0], number) for number in numbers[(page - 1) * each : page * each]], links

    def _note(self, example: dict[str, Any], number: int) -> dict[str, Any]:
        said = self.talk.said[number]
        user = self._users.setdefault(said.author, 1000 + len(self._users))
        author = example["author"] | {"username": said.author, "id": user}
        # GitLab ends lines like HTTP forms do, and hints at the time in milliseconds.
        moment = said.created.strftime("%Y-%m-%dT%H:%M:%S.123Z")
        return example | {"id": number, "body": said.body, "author": author, "created_at": moment}
