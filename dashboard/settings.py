"""Settings, read from the environment once and checked; README.md documents the variables."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MIN_KEY_LENGTH = 32
_MAX_SESSION_HOURS = 24 * 30


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdLogin:
    issuer: str  # base URL of its discovery document
    client_id: str
    client_secret: str | None  # None: a public client, protected by PKCE
    scopes: str = "openid email profile"
    name_claim: str = "email"
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLogin:
    """Login by a reverse proxy, which sends the user name in a header."""

    user_header: str = "X-Forwarded-User"
    groups_header: str | None = None  # None: no groups


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Settings of authentication and authorization."""

    served_on: str | None = None  # address of `warpwatch serve`; None under another server
    public_url: str | None = None  # without a trailing slash
    hosts: tuple[str, ...] = ()  # additional allowed host names
    proxies: tuple[Network, ...] = ()  # trusted: their X-Forwarded headers count
    secret_key: str | None = None
    login: OpenIdLogin | ProxyLogin | None = None
    reading_requires_login: bool = False
    readers: tuple[str, ...] = ("*",)  # names, *@domain, group:NAME, or * for every user
    triagers: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    session_hours: int = 12
    rate_storage: str = "memory://"
    requests_per_minute: int = 600  # per address, person or token; 0: no limit

    @property
    def has_local_login(self) -> bool:
        """Whether the link that the server prints logs in: it listens on a loopback address, without login or proxy."""
        is_local = self.served_on is not None and is_loopback(self.served_on)
        return is_local and self.login is None and not self.proxies

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "AccessSettings":
        """Read the variables. Raises ValueError that names the variable and the fix."""
        login = _login(environ)
        url = _url(environ, "WARPWATCH_URL")
        proxies = _networks(environ.get("WARPWATCH_PROXIES", ""))
        if isinstance(login, OpenIdLogin):
            if url is None:
                raise ValueError(
                    "WARPWATCH_LOGIN=openid requires WARPWATCH_URL, the URL to which the provider redirects, "
                    "such as https://perf.example.org"
                )
            _require_https("WARPWATCH_URL", url)
        if isinstance(login, ProxyLogin) and not proxies:
            raise ValueError(
                "WARPWATCH_LOGIN=proxy requires WARPWATCH_PROXIES, the addresses of the trusted proxies, such as "
                "127.0.0.1 or 10.0.0.0/24"
            )
        key = environ.get("WARPWATCH_SECRET_KEY") or None
        if key is not None and len(key) < _MIN_KEY_LENGTH:
            raise ValueError(
                f"WARPWATCH_SECRET_KEY has {len(key)} characters; expected at least {_MIN_KEY_LENGTH}, such as from "
                "python -c 'import secrets; print(secrets.token_hex(32))'"
            )
        return cls(
            public_url=url,
            hosts=_names(environ.get("WARPWATCH_HOSTS", "")),
            proxies=proxies,
            secret_key=key,
            login=login,
            reading_requires_login=_reading(environ, login),
            readers=_names(environ.get("WARPWATCH_READERS", "*")),
            triagers=_names(environ.get("WARPWATCH_TRIAGERS", "")),
            admins=_names(environ.get("WARPWATCH_ADMINS", "")),
            session_hours=_number(environ, "WARPWATCH_SESSION_HOURS", 12, minimum=1, maximum=_MAX_SESSION_HOURS),
            rate_storage=environ.get("WARPWATCH_RATE_STORAGE") or "memory://",
            requests_per_minute=_number(environ, "WARPWATCH_REQUESTS_PER_MINUTE", 600, minimum=0, maximum=1_000_000),
        )


def _login(environ: Mapping[str, str]) -> OpenIdLogin | ProxyLogin | None:
    kind = environ.get("WARPWATCH_LOGIN", "none")
    if kind == "none":
        return None
    if kind == "proxy":
        return ProxyLogin(
            user_header=environ.get("WARPWATCH_USER_HEADER") or "X-Forwarded-User",
            groups_header=environ.get("WARPWATCH_GROUPS_HEADER") or None,
        )
    if kind != "openid":
        raise ValueError(f"WARPWATCH_LOGIN is {kind!r}; expected openid, proxy or none")
    issuer = environ.get("WARPWATCH_OPENID_ISSUER", "")  # with a trailing slash if the provider has one
    client_id = environ.get("WARPWATCH_OPENID_CLIENT_ID", "")
    if not _url(environ, "WARPWATCH_OPENID_ISSUER") or not client_id:
        raise ValueError(
            "WARPWATCH_LOGIN=openid requires WARPWATCH_OPENID_ISSUER and WARPWATCH_OPENID_CLIENT_ID, as the "
            "provider's page of this client shows them"
        )
    _require_https("WARPWATCH_OPENID_ISSUER", issuer)
    scopes = environ.get("WARPWATCH_OPENID_SCOPES") or "openid email profile"
    if "openid" not in scopes.split():
        raise ValueError(f"WARPWATCH_OPENID_SCOPES is {scopes!r}; it must contain openid")
    return OpenIdLogin(
        issuer=issuer,
        client_id=client_id,
        client_secret=environ.get("WARPWATCH_OPENID_CLIENT_SECRET") or None,
        scopes=scopes,
        name_claim=environ.get("WARPWATCH_OPENID_NAME_CLAIM") or "email",
        groups_claim=environ.get("WARPWATCH_OPENID_GROUPS_CLAIM") or "groups",
    )


def _reading(environ: Mapping[str, str], login: object) -> bool:
    reading = environ.get("WARPWATCH_READING") or ("open" if login is None else "login")
    if reading not in {"open", "login"}:
        raise ValueError(f"WARPWATCH_READING is {reading!r}; expected open or login")
    if reading == "login" and login is None:
        raise ValueError("WARPWATCH_READING=login requires a login: set WARPWATCH_LOGIN to openid or proxy")
    return reading == "login"


def _url(environ: Mapping[str, str], name: str) -> str | None:
    url = environ.get(name) or None
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
        _ = parts.port
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"{name} is {url!r}; expected a URL such as https://perf.example.org")
    return url.rstrip("/")


def _require_https(name: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError(f"{name} is {url!r}; a login requires https")


def is_loopback(host: str) -> bool:
    """Whether the address or name is a loopback one."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(name) for name in _names(text))
    except ValueError as error:
        raise ValueError(
            f"WARPWATCH_PROXIES: {error}; expected addresses or networks such as 127.0.0.1,10.0.0.0/24"
        ) from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _number(environ: Mapping[str, str], name: str, default: int, *, minimum: int, maximum: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not minimum <= int(text) <= maximum:
        raise ValueError(f"{name} is {text!r}; expected an integer from {minimum} to {maximum}")
    return int(text)


DEFAULT_THRESHOLD = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one program, from `from_env` or created by a command or test."""

    database: str  # SQLAlchemy URL
    threshold: float = DEFAULT_THRESHOLD  # smallest relative change that matters
    upload_limit_mib: int = 128  # per request
    access: AccessSettings = field(default_factory=AccessSettings)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> "Settings":
        """Read the variables; the default database is .warpwatch/warpwatch.db below cwd.

        Raises ValueError that names the variable and the fix.
        """
        environ = os.environ if environ is None else environ
        default = f"sqlite:///{(cwd or Path.cwd()) / '.warpwatch' / 'warpwatch.db'}"
        threshold = environ.get("WARPWATCH_THRESHOLD", str(DEFAULT_THRESHOLD))
        try:
            value = float(threshold)
        except ValueError:
            value = -1.0
        if not 0 < value < 1:
            raise ValueError(f"WARPWATCH_THRESHOLD is {threshold!r}; expected a fraction such as 0.02")
        limit = environ.get("WARPWATCH_UPLOAD_LIMIT_MIB", "128")
        if not limit.isdecimal() or int(limit) < 1:
            raise ValueError(f"WARPWATCH_UPLOAD_LIMIT_MIB is {limit!r}; expected an integer such as 128")
        return cls(
            database=environ.get("WARPWATCH_DATABASE") or default,
            threshold=value,
            upload_limit_mib=int(limit),
            access=AccessSettings.from_env(environ),
        )
