"""A stranger's repository is read without running a program that its configuration names."""

import subprocess
from pathlib import Path

import pytest

from warpwatch.dashboard.importers.git import (
    GitError,
    commit_date_ms,
    file_at,
    git_history,
    messages,
    resolve,
    root_of,
    tags,
    uncommitted_files,
)

_FETCHED = "1" * 40  # an object that a partial clone would fetch
_CONFIGURATIONS = {
    "signatures": "[log]\n showSignature = true\n[gpg]\n program = {program}\n",
    "file watcher": "[core]\n fsmonitor = {program}\n",
    "hooks": "[core]\n hooksPath = {folder}\n",
    "ssh": '[core]\n sshCommand = {program}\n[remote "origin"]\n url = ssh://h/r\n promisor = true\n'
    " partialclonefilter = blob:none\n[extensions]\n partialClone = origin\n",
    "ext": '[remote "origin"]\n url = ext::{program} %S\n promisor = true\n partialclonefilter = blob:none\n'
    "[protocol]\n allow = always\n[extensions]\n partialClone = origin\n",
    "external diff": "[diff]\n external = {program}\n",
    "pager": "[core]\n pager = {program}\n[pager]\n log = {program}\n show = {program}\n",
}
_SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"


def _git(folder: Path, *words: str, overrides: str | None = None) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words], input=overrides, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.parametrize("kind", _CONFIGURATIONS)
def test_no_program_of_the_repository_runs(kind: str, tmp_path: Path) -> None:
    folder, ran = tmp_path / "checkout", tmp_path / "ran"
    program = tmp_path / "hooks" / "post-index-change"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    program.chmod(0o755)
    folder.mkdir()
    _git(folder, "init", "--quiet")
    (folder / "file.txt").write_text("words")
    _git(folder, "add", "--all")
    tree = _git(folder, "write-tree")
    words = f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n{_SIGNATURE}\nsigned\n"
    commit = _git(folder, "hash-object", "-t", "commit", "-w", "--stdin", overrides=words)
    _git(folder, "update-ref", "HEAD", commit)
    _git(folder, "tag", "v1", commit)
    with (folder / ".git" / "config").open("a") as config:
        config.write(_CONFIGURATIONS[kind].format(program=program, folder=program.parent))
    (folder / "file.txt").write_text("other words")

    assert [known.hash for known in git_history(folder, [commit, _FETCHED])] == [commit]
    assert resolve(folder, "v1") == commit
    assert resolve(folder, _FETCHED) is None
    assert commit_date_ms(folder, commit) == 1000
    assert commit_date_ms(folder, _FETCHED) is None
    assert file_at(folder, commit, "file.txt", most=100) == b"words"
    assert tags(folder) == (("v1", commit),)
    assert root_of(folder) == folder
    assert uncommitted_files(folder) == {"file.txt": True}
    with pytest.raises(GitError):
        messages(folder, _FETCHED, commit)
    assert not ran.exists()
