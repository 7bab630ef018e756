"""A small OpenID provider over HTTP: discovery, keys, the code flow with PKCE, signed ID tokens; and ways to be bad."""

import base64
import functools
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from flask import Flask, jsonify, redirect, request
from flask.typing import ResponseReturnValue
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from werkzeug.serving import make_server

from tests.answering import answering

CLIENT_ID = "warpwatch"
CLIENT_SECRET = "a secret of the tests"


@functools.cache
def _key() -> RSAKey:
    """One RSA key for all providers: generating another takes as long as a test."""
    return RSAKey.generate_key(2048, {"kid": "one"})


@dataclass
class Provider:
    """Its name, the user it logs in, and the faults of the tokens it issues."""

    url: str = ""
    key: RSAKey = field(default_factory=_key)
    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "1", "email": "ada@example.org", "email_verified": True, "groups": ["kernels"]}
    )
    claims: dict[str, Any] = field(default_factory=dict)  # that replace the right ones; None leaves one out
    algorithm: str = "RS256"
    algorithms: list[str] | None = field(default_factory=lambda: ["RS256"])  # that its discovery document lists
    signing_key: RSAKey | OctKey | bytes | None = None  # another than it publishes
    published_issuer: str | None = None
    keeps_id_token: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)  # the queries of the authorization endpoint
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def id_token(self, nonce: str) -> str:
        """An ID token of the person; right where nothing else was asked for."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        claims = {name: said for name, said in (claims | self.claims).items() if said is not None}
        if self.algorithm == "none" or isinstance(self.signing_key, bytes):
            signed = ".".join(map(_base64url, ({"alg": self.algorithm}, claims)))
            mac = hmac.digest(self.signing_key, signed.encode(), "sha256") if self.signing_key else b""
            return f"{signed}.{_base64url(mac)}"
        header = {"alg": self.algorithm, "kid": "one"}
        return jwt.encode(header, claims, self.signing_key or self.key, algorithms=[self.algorithm])


def _base64url(said: object) -> str:
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _application(provider: Provider) -> Flask:
    app = Flask("provider")

    @app.get("/.well-known/openid-configuration")
    def discovery() -> ResponseReturnValue:
        return jsonify(
            issuer=provider.published_issuer or provider.url,
            authorization_endpoint=f"{provider.url}/authorize",
            token_endpoint=f"{provider.url}/token",
            jwks_uri=f"{provider.url}/keys",
            id_token_signing_alg_values_supported=provider.algorithms,
            code_challenge_methods_supported=["S256"],
        )

    @app.get("/keys")
    def keys() -> ResponseReturnValue:
        return jsonify(keys=[provider.key.as_dict(private=False)])

    @app.get("/authorize")
    def authorize() -> ResponseReturnValue:
        asked = request.args.to_dict()
        provider.asked.append(asked)
        code = secrets.token_urlsafe(16)
        provider.codes[code] = asked
        return redirect(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")

    @app.post("/token")
    def token() -> ResponseReturnValue:
        asked = provider.codes.pop(request.form["code"], None)
        client = request.authorization
        verifier = hashlib.sha256(request.form.get("code_verifier", "").encode()).digest()
        good = (
            asked is not None
            and client is not None
            and (client.username, client.password) == (CLIENT_ID, CLIENT_SECRET)
            and asked["code_challenge_method"] == "S256"
            and asked["code_challenge"] == _base64url(verifier)
            and asked["redirect_uri"] == request.form["redirect_uri"]
        )
        if asked is None or not good:
            return jsonify(error="invalid_grant"), 400
        answer = {"access_token": "opaque", "token_type": "Bearer", "expires_in": 60}
        if not provider.keeps_id_token:
            answer["id_token"] = provider.id_token(asked["nonce"])
        return jsonify(answer)

    return app


@contextmanager
def providing() -> Iterator[Provider]:
    """A provider on a socket of its own."""
    provider = Provider()
    server = make_server("127.0.0.1", 0, _application(provider), threaded=True)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    with answering(server):
        yield provider
