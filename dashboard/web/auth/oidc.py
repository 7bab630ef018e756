"""Logging in at an OpenID provider: its discovery document, the authorization code with PKCE, state and nonce.

Authlib does the exchange and checks the ID token: its signature, issuer, audience, times and nonce.
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
_PATIENCE_S = 10
_CLOCKS_APART_S = 60
_LONGEST_NAME = 200
_SIGNING = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
_log = logging.getLogger(__name__)


class LoginError(Exception):
    """Nobody is logged in; the message says why, for the one who tried."""


def register(app: Flask, login: OpenIdLogin) -> None:
    """Get the client ready; the provider is not asked before somebody logs in."""
    OAuth(app).register(
        _NAME,
        client_id=login.client_id,
        client_secret=login.client_secret,
        server_metadata_url=f"{login.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": login.scopes,
            "code_challenge_method": "S256",
            "default_timeout": _PATIENCE_S,
            **({} if login.client_secret else {"token_endpoint_auth_method": "none"}),
        },
    )


def to_provider(callback: str) -> Response:
    """A redirect to the provider, which sends the browser back to the callback. Raises LoginError."""
    for key in [key for key in session if key.startswith("_state_")]:
        del session[key]  # of logins that were begun and left: the cookie is small
    try:
        metadata = _client().load_server_metadata()
        _check_issuer(metadata)
        answer: Response = _client().authorize_redirect(callback)
    except (AuthlibBaseError, RequestException, RuntimeError, ValueError) as error:
        _log.warning("login: %s", error)
        raise LoginError("The login provider does not answer as it should; try again in a minute.") from error
    return answer


def from_provider() -> tuple[str, str, tuple[str, ...]]:
    """The name, the subject and the groups of the one whom the provider sends back. Raises LoginError."""
    login = _login()
    wanted = {"iss": {"essential": True, "value": login.issuer}, "aud": {"essential": True, "value": login.client_id}}
    try:
        _want_signatures(_client().load_server_metadata())
        answer = _client().authorize_access_token(claims_options=wanted, leeway=_CLOCKS_APART_S)
    except (AuthlibBaseError, JoseError, RequestException, RuntimeError, ValueError) as error:
        _log.warning("login refused: %s: %s", type(error).__name__, error)
        raise LoginError(_said(error)) from error
    claims = answer.get("userinfo")
    if not claims:
        raise LoginError("The provider sent no ID token; is this client registered for OpenID Connect there?")
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
            f"WARPWATCH_OPENID_ISSUER is {_login().issuer!r}, and its discovery document says "
            f"{metadata.get('issuer')!r}; they must be the same to the letter"
        )


def _want_signatures(metadata: dict[str, Any]) -> None:
    """Leaves the provider's algorithms that sign by a private key. Authlib takes an ID token of any that it lists:
    with "none" an unsigned one, with HS256 one signed by whatever both sides know.
    """
    listed = metadata.get("id_token_signing_alg_values_supported")
    signing = [each for each in listed if each in _SIGNING] if isinstance(listed, list) else []
    metadata["id_token_signing_alg_values_supported"] = signing or ["RS256"]


def _said(error: Exception) -> str:
    if getattr(error, "error", None) == "access_denied":
        return "The provider did not let you in."
    if getattr(error, "error", None) == "mismatching_state":
        return "This login was begun in another browser, or too long ago; begin again."
    if isinstance(error, RequestException):
        return "The login provider does not answer; try again in a minute."
    return "The provider's answer was not good; begin again. The server's log says what was wrong with it."


def _name(claims: dict[str, Any], login: OpenIdLogin) -> str:
    name = claims.get(login.name_claim)
    if not isinstance(name, str) or not name.strip():
        raise LoginError(
            f"The provider tells no “{login.name_claim}” of you; WARPWATCH_OPENID_NAME_CLAIM or "
            "WARPWATCH_OPENID_SCOPES wants changing."
        )
    if login.name_claim == "email" and claims.get("email_verified") is not True:
        raise LoginError(
            "The provider does not say that this mail address is yours (email_verified); verify it there, "
            "or name people by another claim (WARPWATCH_OPENID_NAME_CLAIM)."
        )
    return name.strip()[:_LONGEST_NAME]


def _groups(claims: dict[str, Any], login: OpenIdLogin) -> tuple[str, ...]:
    groups = claims.get(login.groups_claim)
    if isinstance(groups, str):
        return (groups,)
    return tuple(each for each in groups if isinstance(each, str)) if isinstance(groups, list) else ()
