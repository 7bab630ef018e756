"""Links to commits and their differences on GitHub, GitLab, Bitbucket, Codeberg.

A project's address is asv's `show_commit_url`, to which a commit's full hash is appended.
"""

import re
from urllib.parse import urlsplit

from .series import Project

_BEHIND = {
    "github": "/commit/",
    "gitlab": "/-/commit/",
    "bitbucket": "/commits/",
    "codeberg": "/commit/",
    "gitea": "/commit/",
    "forgejo": "/commit/",
}
_DIFFERENCES = {
    "/-/commit/": "/-/compare/{base}...{head}",
    "/commits/": "/branches/compare/{head}%0D{base}#diff",
    "/commit/": "/compare/{base}...{head}",
}
_SCP = re.compile(r"(?:[^/@\s]+@)?([^/:\s]+):(?!/)(\S+)")  # git@github.com:owner/name.git


def web_address(text: object) -> str | None:
    """The text if it is an address that a page may link to, else None."""
    if not isinstance(text, str) or not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in {"http", "https"} and parts.hostname else None


def commit_url_of(repository_url: str) -> str | None:
    """Address of a repository's commits, without the hash; None for an unknown host."""
    found = _SCP.fullmatch(repository_url)
    try:
        parts = urlsplit(f"ssh://{found[1]}/{found[2]}" if found and "://" not in repository_url else repository_url)
        port = f":{parts.port}" if parts.port and parts.scheme in {"http", "https"} else ""
    except ValueError:
        return None
    host, path = parts.hostname or "", parts.path.rstrip("/").removesuffix(".git")
    behind = next((behind for name, behind in _BEHIND.items() if name in host), None)
    if behind is None or path.count("/") < 2 or parts.scheme not in {"http", "https", "ssh", "git", "git+ssh"}:
        return None
    return web_address(f"https://{host}{port}{path}{behind}")  # without user name and token of the remote


def commit_link(project: Project, commit: str) -> str | None:
    """Address of a commit; None without the project's address."""
    return f"{project.commit_url}{commit}" if project.commit_url else None


def difference_link(project: Project, base: str, head: str) -> str | None:
    """Address of the difference of two commits; None for an unknown host."""
    for behind, address in _DIFFERENCES.items():
        if project.commit_url and project.commit_url.endswith(behind):
            return project.commit_url.removesuffix(behind) + address.format(base=base, head=head)
    return None
