"""How a project's name stands in an address: any name is one part of the path, `owner/name` too."""

from werkzeug.routing import BaseConverter


class ProjectName(BaseConverter):
    """`<project:name>`: a slash is written `~1` and a tilde `~0`, as in JSON pointers (RFC 6901).

    A server decodes `%2F` before the application sees the path, so an ordinary escape would split the name.
    """

    def to_python(self, value: str) -> str:
        return value.replace("~1", "/").replace("~0", "~")

    def to_url(self, value: str) -> str:
        return super().to_url(value.replace("~", "~0").replace("/", "~1"))
