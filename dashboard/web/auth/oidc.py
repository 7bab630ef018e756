"""Login at an OpenID provider: discovery, authorization code with PKCE, state and nonce.

Authlib does the exchange and checks signature, issuer, audience, times and nonce of the ID token.
"""

import logging
from typing import Any

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.flask_client import FlaskOAuth2App, OAuth
from flask import Flask, current_app, session
from joserfc.errors import JoseError
from requests import RequestException
from werkzeug import Response

from ...settings import OpenIdLogin
from . import identity
from .identity import relevant_groups

_NAME = "openid"
_TIMEOUT_S = 10
_CLOCK_SKEW_S = 60
_MAX_NAME_LENGTH = 200
_SIGNING = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
_log = logging.getLogger(__name__)


class LoginError(Exception):
    """The login failed; the message is for the user."""


def register(app: Flask, login: OpenIdLogin) -> None:
    """Configure the client; the first login contacts the provider."""
    OAuth(app).register(
        _NAME,
        client_id=login.client_id,
        client_secret=login.client_secret,
        server_metadata_url=f"{login.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": login.scopes,
            "code_challenge_method": "S256",
            "default_timeout": _TIMEOUT_S,
            **({} if login.client_secret else {"token_endpoint_auth_method": "none"}),
        },
    )


def to_provider(callback: str) -> Response:
    """Redirect to the provider, which redirects back to the callback. Raises LoginError."""
    for key in [key for key in session if key.startswith("_state_")]:
        del session[key]  # of abandoned logins: a cookie has room for few
    try:
        metadata = _client().load_server_metadata()
        _check_issuer(metadata)
        response: Response = _client().authorize_redirect(callback)
    except (AuthlibBaseError, RequestException, RuntimeError, ValueError) as error:
        _log.warning("login: %s", error)
        raise LoginError("The login provider returned an error. Try again in a minute.") from error
    return response


def from_provider() -> tuple[str, str, tuple[str, ...]]:
    """Name, subject and groups of the user, from the callback request. Raises LoginError."""
    login = _login()
    required = {"iss": {"essential": True, "value": login.issuer}, "aud": {"essential": True, "value": login.client_id}}
    try:
        _require_signatures(_client().load_server_metadata())
        token = _client().authorize_access_token(claims_options=required, leeway=_CLOCK_SKEW_S)
    except (AuthlibBaseError, JoseError, RequestException, RuntimeError, ValueError) as error:
        _log.warning("login refused: %s: %s", type(error).__name__, error)
        raise LoginError(_message(error)) from error
    claims = token.get("userinfo")
    if not claims:
        raise LoginError("The provider sent no ID token. Is this client registered for OpenID Connect there?")
    name, groups = _name(claims, login), relevant_groups(identity.access_settings(), _groups(claims, login))
    return name, f"{claims['iss']} {claims['sub']}", groups


def _login() -> OpenIdLogin:
    login = identity.access_settings().login
    assert isinstance(login, OpenIdLogin)
    return login


def _client() -> FlaskOAuth2App:
    client = current_app.extensions["authlib.integrations.flask_client"].create_client(_NAME)
    assert isinstance(client, FlaskOAuth2App)
    return client


def _check_issuer(metadata: dict[str, Any]) -> None:
    if metadata.get("issuer") != _login().issuer:
        raise ValueError(
            f"WARPWATCH_OPENID_ISSUER is {_login().issuer!r}, but its discovery document has "
            f"{metadata.get('issuer')!r}; they must be equal"
        )


def _require_signatures(metadata: dict[str, Any]) -> None:
    """Restrict the provider's algorithms to signatures by a private key: Authlib accepts any that it lists, also "none"
    and HS256.
    """
    listed = metadata.get("id_token_signing_alg_values_supported")
    signing = [name for name in listed if name in _SIGNING] if isinstance(listed, list) else []
    metadata["id_token_signing_alg_values_supported"] = signing or ["RS256"]


def _message(error: Exception) -> str:
    if getattr(error, "error", None) == "access_denied":
        return "The provider denied access."
    if getattr(error, "error", None) == "mismatching_state":
        return "This login was started in another browser or has expired. Start again."
    if isinstance(error, RequestException):
        return "The login provider does not respond. Try again in a minute."
    return "The provider's response is invalid; the server's log has the details. Start again."


def _name(claims: dict[str, Any], login: OpenIdLogin) -> str:
    name = claims.get(login.name_claim)
    if not isinstance(name, str) or not name.strip():
        raise LoginError(
            f"The provider sent no claim “{login.name_claim}”. Change WARPWATCH_OPENID_NAME_CLAIM or "
            "WARPWATCH_OPENID_SCOPES."
        )
    if login.name_claim == "email" and claims.get("email_verified") is not True:
        raise LoginError(
            "The provider has not verified this mail address (email_verified). Verify it there, "
            "or use another claim for names (WARPWATCH_OPENID_NAME_CLAIM)."
        )
    return name.strip()[:_MAX_NAME_LENGTH]


def _groups(claims: dict[str, Any], login: OpenIdLogin) -> tuple[str, ...]:
    groups = claims.get(login.groups_claim)
    if isinstance(groups, str):
        return (groups,)
    return tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else ()
