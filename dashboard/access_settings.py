"""Who may come in: read from the environment once, checked, and handed down. What each variable means: README.md."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_SHORTEST_KEY = 32  # characters
_LONGEST_SESSION_HOURS = 24 * 30


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdLogin:
    """People log in at an OpenID provider."""

    issuer: str  # its discovery document lies under it
    client_id: str
    client_secret: str | None  # none for a public client, which PKCE alone protects
    scopes: str = "openid email profile"
    name_claim: str = "email"
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLogin:
    """A reverse proxy has logged them in, and names them in headers."""

    user_header: str = "X-Forwarded-User"
    groups_header: str | None = None  # None: the proxy names no groups


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """The part of the settings that says who may read and write."""

    served_on: str | None = None  # the address `warpwatch serve` listens on; None under another server
    public_url: str | None = None  # where people reach the dashboard, without a slash at its end
    hosts: tuple[str, ...] = ()  # further names it goes by
    proxies: tuple[Network, ...] = ()  # whose X-Forwarded headers count
    secret_key: str | None = None
    login: OpenIdLogin | ProxyLogin | None = None
    reading_wants_login: bool = False
    readers: tuple[str, ...] = ("*",)  # names, *@domain, group:NAME, or * for everybody who logs in
    triagers: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    session_hours: int = 12
    rate_storage: str = "memory://"
    requests_per_minute: int = 600  # of one address, person or token; 0 is no limit

    @property
    def has_local_login(self) -> bool:
        """Whether the one who runs the server logs in by the link that it prints: it listens to this machine alone."""
        is_alone = self.served_on is not None and is_loopback(self.served_on)
        return is_alone and self.login is None and not self.proxies

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "AccessSettings":
        """Raises ValueError with the variable and what to do where one cannot be meant so."""
        login = _login(environ)
        url = _url(environ, "WARPWATCH_URL")
        proxies = _networks(environ.get("WARPWATCH_PROXIES", ""))
        if isinstance(login, OpenIdLogin):
            if url is None:
                raise ValueError("WARPWATCH_LOGIN=openid wants WARPWATCH_URL, the address to which the provider sends "
                                 "people back, such as https://perf.example.org")  # fmt: skip
            _encrypted("WARPWATCH_URL", url)
        if isinstance(login, ProxyLogin) and not proxies:
            raise ValueError("WARPWATCH_LOGIN=proxy wants WARPWATCH_PROXIES, the addresses whose word counts, such as "
                             "127.0.0.1 or 10.0.0.0/24")  # fmt: skip
        key = environ.get("WARPWATCH_SECRET_KEY") or None
        if key is not None and len(key) < _SHORTEST_KEY:
            raise ValueError(f"WARPWATCH_SECRET_KEY has {len(key)} characters; wanted {_SHORTEST_KEY} at least, as "
                             "python -c 'import secrets; print(secrets.token_hex(32))' makes")  # fmt: skip
        return cls(
            public_url=url,
            hosts=_names(environ.get("WARPWATCH_HOSTS", "")),
            proxies=proxies,
            secret_key=key,
            login=login,
            reading_wants_login=_reading(environ, login),
            readers=_names(environ.get("WARPWATCH_READERS", "*")),
            triagers=_names(environ.get("WARPWATCH_TRIAGERS", "")),
            admins=_names(environ.get("WARPWATCH_ADMINS", "")),
            session_hours=_number(environ, "WARPWATCH_SESSION_HOURS", 12, least=1, most=_LONGEST_SESSION_HOURS),
            rate_storage=environ.get("WARPWATCH_RATE_STORAGE") or "memory://",
            requests_per_minute=_number(environ, "WARPWATCH_REQUESTS_PER_MINUTE", 600, least=0, most=1_000_000),
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
        raise ValueError(f"WARPWATCH_LOGIN is {kind!r}; wanted openid, proxy or none")
    issuer = environ.get("WARPWATCH_OPENID_ISSUER", "")  # as the provider writes it: a slash at its end is part of it
    client_id = environ.get("WARPWATCH_OPENID_CLIENT_ID", "")
    if not _url(environ, "WARPWATCH_OPENID_ISSUER") or not client_id:
        raise ValueError("WARPWATCH_LOGIN=openid wants WARPWATCH_OPENID_ISSUER and WARPWATCH_OPENID_CLIENT_ID, as the "
                         "provider's page of this client shows them")  # fmt: skip
    _encrypted("WARPWATCH_OPENID_ISSUER", issuer)
    scopes = environ.get("WARPWATCH_OPENID_SCOPES") or "openid email profile"
    if "openid" not in scopes.split():
        raise ValueError(f"WARPWATCH_OPENID_SCOPES is {scopes!r}; openid must be among them")
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
        raise ValueError(f"WARPWATCH_READING is {reading!r}; wanted open or login")
    if reading == "login" and login is None:
        raise ValueError("WARPWATCH_READING=login wants a way to log in: set WARPWATCH_LOGIN to openid or proxy")
    return reading == "login"


def _url(environ: Mapping[str, str], name: str) -> str | None:
    said = environ.get(name) or None
    if said is None:
        return None
    try:
        parts = urlsplit(said)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{name} is {said!r}; wanted an address such as https://perf.example.org")
    return said.rstrip("/")


def _encrypted(name: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError(f"{name} is {url!r}; a login wants https, for everybody on the way could take it over")


def is_loopback(host: str) -> bool:
    """Whether the address or name is a machine's own alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _networks(said: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(each) for each in _names(said))
    except ValueError as error:
        raise ValueError(
            f"WARPWATCH_PROXIES: {error}; wanted addresses or networks such as 127.0.0.1,10.0.0.0/24"
        ) from error


def _names(said: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in said.split(",") if each.strip())


def _number(environ: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    said = environ.get(name) or str(default)
    if not said.isdecimal() or not least <= int(said) <= most:
        raise ValueError(f"{name} is {said!r}; wanted a whole number from {least} to {most}")
    return int(said)
