"""What the environment says of access, and what a start without a secret, or with one that others read, ends in."""

from pathlib import Path

import pytest

from warpwatch.dashboard.settings import AccessSettings, OpenIdLogin, ProxyLogin, Settings
from warpwatch.dashboard.web.app import create_app

OPENID = {
    "WARPWATCH_LOGIN": "openid",
    "WARPWATCH_URL": "https://perf.example.org/",
    "WARPWATCH_OPENID_ISSUER": "https://login.example.org/realms/all/",
    "WARPWATCH_OPENID_CLIENT_ID": "warpwatch",
}
PROXY = {"WARPWATCH_LOGIN": "proxy", "WARPWATCH_PROXIES": "127.0.0.1, 10.0.0.0/24"}


def test_without_any_variable_there_is_no_login_and_reading_is_open() -> None:
    assert AccessSettings.from_env({}) == AccessSettings()


def test_a_login_closes_reading_unless_the_settings_leave_it_open() -> None:
    closed = AccessSettings.from_env(OPENID | {"WARPWATCH_ADMINS": "ada@example.org, group:kernels,"})
    assert closed.reading_requires_login
    assert closed.admins == ("ada@example.org", "group:kernels")
    assert closed.public_url == "https://perf.example.org"
    assert isinstance(closed.login, OpenIdLogin)
    assert closed.login.issuer == "https://login.example.org/realms/all/"  # to the letter
    assert not AccessSettings.from_env(OPENID | {"WARPWATCH_READING": "open"}).reading_requires_login
    proxied = AccessSettings.from_env(PROXY | {"WARPWATCH_USER_HEADER": "Remote-User"})
    assert proxied.login == ProxyLogin(user_header="Remote-User")
    assert [str(network) for network in proxied.proxies] == ["127.0.0.1/32", "10.0.0.0/24"]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"WARPWATCH_LOGIN": "oauth"}, "expected openid, proxy or none"),
        ({"WARPWATCH_LOGIN": "proxy"}, "requires WARPWATCH_PROXIES"),
        (PROXY | {"WARPWATCH_PROXIES": "nginx"}, "WARPWATCH_PROXIES: 'nginx'"),
        (PROXY | {"WARPWATCH_PROXIES": "10.0.0.1/8"}, "has host bits set"),
        (OPENID | {"WARPWATCH_URL": ""}, "requires WARPWATCH_URL"),
        (OPENID | {"WARPWATCH_URL": "http://perf.example.org"}, "requires https"),
        (OPENID | {"WARPWATCH_OPENID_ISSUER": ""}, "requires WARPWATCH_OPENID_ISSUER"),
        (OPENID | {"WARPWATCH_OPENID_ISSUER": "http://login.example.org"}, "requires https"),
        (OPENID | {"WARPWATCH_OPENID_CLIENT_ID": ""}, "WARPWATCH_OPENID_CLIENT_ID"),
        (OPENID | {"WARPWATCH_OPENID_SCOPES": "email"}, "must contain openid"),
        ({"WARPWATCH_URL": "perf.example.org"}, "expected a URL"),
        ({"WARPWATCH_URL": "https://perf.example.org:x"}, "expected a URL"),
        ({"WARPWATCH_READING": "login"}, "requires a login"),
        ({"WARPWATCH_READING": "closed"}, "expected open or login"),
        ({"WARPWATCH_SECRET_KEY": "short"}, "has 5 characters; expected at least 32"),
        ({"WARPWATCH_SESSION_HOURS": "0"}, "from 1 to 720"),
        ({"WARPWATCH_SESSION_HOURS": "1.5"}, "expected an integer"),
        ({"WARPWATCH_REQUESTS_PER_MINUTE": "-1"}, "expected an integer"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_variable(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="WARPWATCH_") as refused:
        AccessSettings.from_env(environ)
    assert message in str(refused.value)


def _settings(folder: Path, **access: object) -> Settings:
    return Settings(database=f"sqlite:///{folder / 'history.db'}", access=AccessSettings(**access))  # type: ignore[arg-type]


def test_a_secret_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    first = create_app(_settings(tmp_path)).secret_key
    (kept,) = tmp_path.glob("*secret*")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_bytes() == first
    assert create_app(_settings(tmp_path)).secret_key == first
    assert first is not None
    assert len(first) == 64
    kept.unlink()
    assert create_app(_settings(tmp_path)).secret_key != first


def test_a_given_key_is_taken_and_kept_nowhere(tmp_path: Path) -> None:
    assert create_app(_settings(tmp_path, secret_key="k" * 32)).secret_key == b"k" * 32
    assert list(tmp_path.glob("*secret*")) == []


def test_a_key_that_others_read_or_that_is_none_stops_the_start(tmp_path: Path) -> None:
    kept = tmp_path / "history.db.secret-key"
    kept.write_text("k" * 64)
    kept.chmod(0o640)
    with pytest.raises(ValueError, match="mode 640"):
        create_app(_settings(tmp_path))
    kept.chmod(0o600)
    assert create_app(_settings(tmp_path)).secret_key == b"k" * 64
    kept.write_text("")
    with pytest.raises(ValueError, match="has no key"):
        create_app(_settings(tmp_path))


def test_where_no_key_can_be_kept_a_login_stops_the_start(tmp_path: Path) -> None:
    def settings(**access: object) -> Settings:
        name = "x" * 246  # as long as a name may be, with what SQLite adds; a key's file would be longer
        return Settings(database=f"sqlite:///{tmp_path / name}", access=AccessSettings(**access))  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="set WARPWATCH_SECRET_KEY"):
        create_app(settings(login=ProxyLogin()))
    assert create_app(settings(login=ProxyLogin(), secret_key="k" * 32)).secret_key == b"k" * 32
    assert create_app(settings()).secret_key != create_app(settings()).secret_key


def test_an_unknown_rate_storage_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="WARPWATCH_RATE_STORAGE is 'nowhere://'"):
        create_app(_settings(tmp_path, rate_storage="nowhere://"))
