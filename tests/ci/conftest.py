"""A repository with a main branch and a topic, GitHub before it, and a workflow's environment."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from .github_server import NAME, github


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """`server`, `commit(files, parent)`, `work`, `run_for(event, payload)`, which sets the environment, `output()`."""
    repository = tmp_path / "kernels.git"
    work = tmp_path / "work"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(repository)], check=True)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(work)], check=True)

    def git(*words):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=work, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(files, parent=None, branch="main"):
        if parent:
            git("checkout", "--quiet", "--detach", parent)
        for name, text in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--message", "change")
        made = git("rev-parse", "HEAD")
        git(
            "push",
            "--quiet",
            "--force",
            str(repository),
            f"HEAD:refs/heads/{branch}" if branch else "HEAD:refs/pull/7/head",
        )
        return made

    def run_for(event, payload, token="ghs_of_the_job"):
        (tmp_path / "event.json").write_text(json.dumps(payload))
        environment = {
            "GITHUB_REPOSITORY": NAME,
            "GITHUB_TOKEN": token,
            "GITHUB_API_URL": server.url,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "GITHUB_SERVER_URL": "https://github.com",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    def output():
        return dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())

    with github(repository) as server:
        yield SimpleNamespace(
            server=server, commit=commit, git=git, run_for=run_for, output=output, folder=tmp_path, work=work
        )


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between requests that failed, which the tests do not wait for."""
    made = []
    monkeypatch.setattr("tenacity.nap.time.sleep", made.append)
    return made
