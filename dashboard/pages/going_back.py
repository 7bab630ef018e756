"""Addresses that a request names to go on to: only pages of ours, so that no link of ours leads to another site."""

from urllib.parse import urlsplit

from flask import request, url_for


def back_to(otherwise: str, *, anchor: str = "") -> str:
    """The page that the form's field `back` names, if it is one of ours; at that part of it."""
    page = own_page(request.form.get("back"), otherwise)
    return f"{page.partition('#')[0]}#{anchor}" if anchor else page


def own_page(address: object, otherwise: str | None = None) -> str:
    """The address if it is a path of this host, else `otherwise`, by default the overview."""
    if isinstance(address, str) and _is_ours(address):
        return address.rstrip("?")
    return url_for("overview.index") if otherwise is None else otherwise


def _is_ours(address: str) -> bool:
    """A path of this host. Browsers take `//host` and `/\\host` for other hosts, and pass over control characters."""
    if not address.startswith("/") or address.startswith("//") or "\\" in address or not address.isprintable():
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc
