"""Both forges, each with a real HTTP server behind its client."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.answering import answering
from tests.ci.forges.forge_server import ForgeServer
from tests.ci.forges.servers import Conversation, GitHubServer, GitLabServer
from tests.ci.reports.examples import HEAD
from warpwatch.ci.forges.github import GitHubThread, open_github
from warpwatch.ci.forges.gitlab import GitLabThread, open_gitlab


def doubling(first_s: float, count: int) -> object:
    """Equal to pauses that double from the first, each with up to half more."""
    return pytest.approx([1.25 * first_s * 2**number for number in range(count)], rel=0.2001)


@dataclass
class Forge:
    """A server, and what its operations are called."""

    server: GitHubServer | GitLabServer
    head: str
    listing: str
    post: str
    change: str
    waits: list[float] = field(default_factory=list)

    @property
    def talk(self) -> Conversation:
        return self.server.talk

    def thread(self, author: str | None = None) -> GitHubThread | GitLabThread:
        """A client of its own, as a job has."""
        if isinstance(self.server, GitHubServer):
            return GitHubThread(open_github("token", self.server.url), "owner/name", 7, author=author)
        return GitLabThread(open_gitlab("token", self.server.url), "group/project", 7, author=author)

    @property
    def environment(self) -> dict[str, str]:
        """Of a command that is to speak with it."""
        return {
            "GITHUB_TOKEN": "token",
            "GITHUB_API_URL": self.server.url,
            "GITHUB_REPOSITORY": "owner/name",
            "GITLAB_TOKEN": "token",
            "CI_SERVER_URL": self.server.url,
            "CI_PROJECT_PATH": "group/project",
        }


_COMMENTS = "/repos/{owner}/{repo}/issues/"
_NOTES = "/projects/{id}/merge_requests/{merge_request_iid}/notes"


def _github() -> Forge:
    return Forge(
        GitHubServer(HEAD),
        "get /repos/{owner}/{repo}/pulls/",
        f"get {_COMMENTS}",
        f"post {_COMMENTS}",
        f"patch {_COMMENTS}comments",
    )


def _gitlab() -> Forge:
    return Forge(
        GitLabServer(HEAD),
        "get /projects/{id}/merge_requests/{merge_request_iid}",
        f"get {_NOTES}",
        f"post {_NOTES}",
        f"put {_NOTES}",
    )


@pytest.fixture(params=[_github, _gitlab], ids=["github", "gitlab"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    """GitHub, then GitLab; at the end every request was as published."""
    made: Forge = request.param()
    server: ForgeServer = made.server
    with answering(server):
        yield made
    assert server.faults == []


@pytest.fixture
def github() -> Iterator[Forge]:
    """GitHub alone."""
    made = _github()
    with answering(made.server):
        yield made
    assert made.server.faults == []
