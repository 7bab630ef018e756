"""Where a form leads once it has done its work: to the page it stood on."""

from urllib.parse import urlsplit

from flask import request


def back_to(otherwise: str, *, anchor: str = "") -> str:
    """The page that the form's field `back` names, if it is one of ours; at that part of it."""
    asked = request.form.get("back", "")
    page = asked if _is_ours(asked) else otherwise
    return f"{page.partition('#')[0]}#{anchor}" if anchor else page


def _is_ours(address: str) -> bool:
    """A path of this host. Browsers take `//host` and `/\\host` for other hosts, and pass over control characters."""
    if not address.startswith("/") or address.startswith("//") or "\\" in address or not address.isprintable():
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc
