"""The headers of every answer: only our own files run, nothing frames us, nothing is sent elsewhere."""

import secrets

from flask import Flask, Response, g


def register(app: Flask) -> None:
    """Give each request a nonce (`csp_nonce()` in templates) and each answer its headers."""
    app.jinja_env.globals["csp_nonce"] = nonce
    app.after_request(_headers)


def nonce() -> str:
    """This request's nonce, made on first use."""
    if "csp_nonce" not in g:
        g.csp_nonce = secrets.token_urlsafe(16)
    return str(g.csp_nonce)


def _headers(response: Response) -> Response:
    policy = {
        "default-src": "'none'",
        "script-src": f"'self' 'nonce-{nonce()}'",
        "style-src": f"'self' 'nonce-{nonce()}'",
        "style-src-attr": "'unsafe-inline'",  # plotly lays its labels out through style attributes
        "img-src": "'self' data:",  # Bootstrap's arrows and marks are data URLs in its style sheet
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    response.headers["Content-Security-Policy"] = "; ".join(f"{name} {value}" for name, value in policy.items())
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    return response
