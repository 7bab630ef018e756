"""Where commits are read outside: what a project states of it, and the links that pages make of it."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.dashboard.pages.plain_project import commit_hash, serve_plain, steps, write_plain
from warpwatch.dashboard.model.commit_links import commit_link, commit_url_of, difference_link, web_address
from warpwatch.dashboard.model.series import Project

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/owner/name.git", "https://github.com/owner/name/commit/"),
        ("git@github.com:owner/name.git", "https://github.com/owner/name/commit/"),
        ("ssh://git@gitlab.com/group/sub/name.git", "https://gitlab.com/group/sub/name/-/commit/"),
        ("https://user:secret@bitbucket.org/owner/name/", "https://bitbucket.org/owner/name/commits/"),
        ("https://gitlab.example.org:8443/group/name", "https://gitlab.example.org:8443/group/name/-/commit/"),
        ("https://codeberg.org/owner/name.git", "https://codeberg.org/owner/name/commit/"),
        ("https://git.example.org/owner/name.git", None),
        ("/srv/git/github.com/name.git", None),
        (".", None),
        ("", None),
        ("https://github.com/", None),
        ("javascript://github.com/a/b", None),
        ("C:\\work\\github", None),
    ],
)
def test_commit_links_follow_from_the_repositorys_address(remote: str, address: str | None) -> None:
    assert commit_url_of(remote) == address


@pytest.mark.parametrize("text", ["#", "", None, 7, "javascript:alert(1)", "http://", "https://a b/", "https://[x/"])
def test_what_is_no_web_address_is_no_link(text: object) -> None:
    assert web_address(text) is None


@pytest.mark.parametrize(
    ("stated", "difference"),
    [
        ("https://github.com/o/n/commit/", "https://github.com/o/n/compare/a...b"),
        ("https://gitlab.com/o/n/-/commit/", "https://gitlab.com/o/n/-/compare/a...b"),
        ("https://bitbucket.org/o/n/commits/", "https://bitbucket.org/o/n/branches/compare/b%0Da#diff"),
        ("https://git.example.org/?id=", None),
        (None, None),
    ],
)
def test_a_difference_is_read_where_a_commit_is(stated: str | None, difference: str | None) -> None:
    project = Project(
        name="p",
        repository=None,
        machines=0,
        series=0,
        commits=0,
        newest_commit=None,
        newest_run=None,
        commit_url=stated,
    )
    assert difference_link(project, "a", "b") == difference
    assert commit_link(project, "b") == (f"{stated}b" if stated else None)


def _conf(folder: Path, **stated: str) -> Path:
    (folder / "asv.conf.json").write_text(json.dumps({"version": 1, "results_dir": "results", **stated}))
    return folder


@pytest.mark.parametrize(
    "stated",
    [{"show_commit_url": "https://github.com/owner/name/commit/"}, {"repo": "https://github.com/owner/name.git"}],
)
def test_pages_link_to_the_commit_and_its_difference_where_asv_states_them(
    tmp_path: Path, stated: dict[str, str]
) -> None:
    values = {"suite.Sort.time_it": steps((12, 0.001), (12, 0.0015))}
    write_plain(tmp_path / "results", values, newest=NOW)
    plain = write_plain(tmp_path / "plain", values, newest=NOW)
    client = serve_plain(tmp_path / "store.db", {"linked": _conf(tmp_path, **stated), "plain": plain})
    commit, before = commit_hash(12), commit_hash(11)
    one, both = (
        f"https://github.com/owner/name/commit/{commit}",
        f"https://github.com/owner/name/compare/{before}...{commit}",
    )
    for path, links in (
        ("commits", (one, both)),
        (f"commit/{commit}", (one, both)),
        ("regressions", (both,)),
        (f"compare?base={before}&head={commit}", (both,)),
    ):
        page = client.get(f"/linked/{path}").text
        assert all(f'href="{link}"' in page for link in links), path
        assert 'class="ww-outside"' not in client.get(f"/plain/{path}").text, path


@pytest.mark.parametrize("is_stated", [True, False])
def test_a_repositorys_own_file_comes_before_where_it_was_cloned_from(tmp_path: Path, is_stated: bool) -> None:
    values = {"suite.Sort.time_it": steps((6, 0.001))}
    repository = tmp_path / "repository"
    repository.mkdir()
    git = ("git", "-C", str(repository))
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "git@github.com:owner/name.git"], check=True)
    if is_stated:
        _conf(repository, show_commit_url="https://gitlab.com/o/n/-/commit/")
    write_plain(tmp_path / "results", values, newest=NOW)
    _conf(tmp_path, repo=str(repository))
    client = serve_plain(tmp_path / "store.db", {"p": tmp_path})
    page = client.get("/p/commits").text
    assert ("https://gitlab.com/o/n/-/commit/" in page) is is_stated
    assert ("https://github.com/owner/name/commit/" in page) is not is_stated
