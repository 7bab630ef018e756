"""Project names in URLs: any name, `owner/name` too, is one part of the path."""

from urllib.parse import quote, urlencode

from werkzeug.routing import BaseConverter


class ProjectName(BaseConverter):
    """`<project:name>`: a slash is written `~1` and a tilde `~0`, as in JSON pointers (RFC 6901).

    A server decodes `%2F` before the application sees the path, so an ordinary escape would split the name.
    """

    def to_python(self, value: str) -> str:
        return value.replace("~1", "/").replace("~0", "~")

    def to_url(self, value: str) -> str:
        return project_in_path(value)


def project_in_path(name: str) -> str:
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~")


def compare_address(project: str, base: str, head: str) -> str:
    """The page that compares two commits of a project, within the dashboard."""
    return f"/{project_in_path(project)}/compare?{urlencode({'base': base, 'head': head})}"


def machine_address(dashboard_url: str, project: str, machine: str) -> str:
    return f"{dashboard_url.rstrip('/')}/{project_in_path(project)}/machines/{project_in_path(machine)}"


def commit_address(dashboard_url: str, project: str, commit_hash: str) -> str:
    """The commit's page on the dashboard at this URL, for messages that are read elsewhere."""
    return f"{dashboard_url.rstrip('/')}/{project_in_path(project)}/commit/{quote(commit_hash, safe='')}"
