"""The container recipe without an engine: its files are held against schema and rules, and what they run is run."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.postgresql import postgresql_program

HOUSE = Path(__file__).parents[2]
RECIPE = HOUSE / "ci" / "recipes" / "dashboard"
PASSWORD = "a password with 'quotes' & %40"


def _compose() -> Any:
    return yaml.safe_load((RECIPE / "compose.yaml").read_text())


def _instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their continuation lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (RECIPE / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def _exec_form(instruction: str) -> list[str]:
    (found,) = (rest for word, rest in _instructions() if word == instruction)
    words: list[str] = json.loads(found[found.index("[") :])
    return words


def test_compose_follows_its_specification() -> None:
    program = str(Path(sys.executable).with_name("check-jsonschema"))
    words = [program, "--builtin-schema", "vendor.compose-spec", str(RECIPE / "compose.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_everything_that_compose_names_is_there() -> None:
    compose = _compose()
    for name, service in compose["services"].items():
        assert set(service.get("secrets", ())) <= set(compose["secrets"]), name
        assert set(service.get("networks", ())) <= set(compose["networks"]), name
        assert set(service.get("depends_on", ())) <= set(compose["services"]), name
        assert service.get("restart") == "unless-stopped"
        for volume in service.get("volumes", ()):
            source = str(volume).partition(":")[0]
            assert (RECIPE / source).is_file() if source.startswith("./") else source in compose["volumes"], volume
    build = compose["services"]["dashboard"]["build"]
    assert isinstance(build, dict)
    assert (RECIPE / str(build["context"])).resolve() == HOUSE
    assert (HOUSE / str(build["dockerfile"])).is_file()
    proxy = compose["services"]["proxy"]["networks"]["outside"]["ipv4_address"]
    assert compose["services"]["dashboard"]["environment"]["WARPWATCH_PROXIES"] == proxy
    assert "healthcheck" in compose["services"]["database"]


def test_a_linter_finds_nothing_in_the_dockerfile_and_the_user_is_unprivileged() -> None:
    program = str(Path(sys.executable).with_name("hadolint"))
    done = subprocess.run([program, str(RECIPE / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert [rest for word, rest in _instructions() if word == "USER"] == ["10001:10001"]
    for word, rest in _instructions():
        if word == "COPY" and "--from" not in rest and rest != ". .":
            assert (HOUSE / shlex.split(rest)[-2]).is_file(), rest


def test_the_build_context_has_no_secrets_and_no_results() -> None:
    lines = [line for line in (RECIPE / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    sent = [line[1:] for line in lines if line.startswith("!")]
    assert all((HOUSE / name).exists() for name in sent)
    assert "perf_suite" not in sent
    assert "ci/recipes/dashboard/secrets" in lines


@pytest.fixture
def database(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A PostgreSQL on a port of its own that wants the password, as the recipe's; its port and the secrets' folder."""
    initdb, pg_ctl = postgresql_program("initdb"), postgresql_program("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("no PostgreSQL server binaries on this machine")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "database_password").write_text(PASSWORD + "\n")
    (secrets / "secret_key").write_text("k" * 64 + "\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(f"/tmp/warpwatch-recipe-{os.getpid()}")
    folder.mkdir()
    shutil.copy(secrets / "database_password", folder / "password")
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user:
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres")
    arguments = _compose()["services"]["database"]["environment"]["POSTGRES_INITDB_ARGS"].split()
    run = [
        *as_user,
        initdb,
        "-D",
        str(folder / "data"),
        "-U",
        "warpwatch",
        f"--pwfile={folder / 'password'}",
        "--no-sync",
    ]
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
    try:
        subprocess.run([*run, *arguments], check=True, capture_output=True, cwd="/")
        pg = [*as_user, pg_ctl, "-D", str(folder / "data")]
        subprocess.run(
            [*pg, "-o", options, "-l", str(folder / "log"), "-w", "start"], check=True, capture_output=True, cwd="/"
        )
        try:
            environ = {**os.environ, "PGPASSWORD": PASSWORD}
            create = [
                str(Path(initdb).resolve().with_name("createdb")),
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
                "-U",
                "warpwatch",
            ]
            subprocess.run([*create, "warpwatch"], check=True, env=environ, cwd="/")
            yield port, secrets
        finally:
            subprocess.run([*pg, "-m", "immediate", "stop"], check=True, capture_output=True, cwd="/")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_dockerfiles_installation_serves_with_postgresql_and_is_healthy(
    database: tuple[int, Path], tmp_path: Path
) -> None:
    port, secrets = database
    (install,) = (rest for word, rest in _instructions() if word == "RUN" and "pip install" in rest)
    fresh = tmp_path / "opt"
    source = tmp_path / "src"
    source.mkdir()
    sent = [line[1:] for line in (RECIPE / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    tracked = subprocess.run(["git", "ls-files", *sent], cwd=HOUSE, check=True, capture_output=True, text=True).stdout
    for name in tracked.splitlines():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HOUSE / name, source / name)
    script = install.replace("/opt/warpwatch", str(fresh)).replace("/src", str(source)).replace("--no-cache-dir", "")
    script = script.replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv")
    environ = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    installing = {**environ, "PIP_NO_COMPILE": "1"}  # what runs here compiles what it needs
    done = subprocess.run(["sh", "-ec", script], env=installing, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    with socket.create_server(("127.0.0.1", 0)) as free:
        web = free.getsockname()[1]
    url = str(_compose()["services"]["dashboard"]["environment"]["WARPWATCH_DATABASE"])
    url = url.replace("@database:5432", f"@127.0.0.1:{port}")
    within = {
        **environ,
        "PATH": f"{fresh / 'bin'}:{environ['PATH']}",
        "WARPWATCH_DATABASE": url,
        "WARPWATCH_SECRETS": str(secrets),
        "TMPDIR": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    entry = [str(RECIPE / "entrypoint.sh")]
    assert _exec_form("ENTRYPOINT") == ["warpwatch-entrypoint"]
    command = [str(web) if word == "8321" else word.replace("0.0.0.0", "127.0.0.1") for word in _exec_form("CMD")]
    health = [word.replace("8321", str(web)) for word in _exec_form("HEALTHCHECK")]
    server = subprocess.Popen([*entry, *command], env=within, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while (beat := subprocess.run(health, env=within, capture_output=True, check=False)).returncode:
            assert server.poll() is None
            assert time.monotonic() < deadline, beat.stderr
            time.sleep(0.2)
        made = subprocess.run(
            [*entry, "warpwatch", "token", "create", "--project", "demo", "--name", "runner"],
            env=within,
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        answer = requests.post(
            f"http://127.0.0.1:{web}/api/projects/demo/results",
            data=b"{}",
            timeout=60,
            headers={"Authorization": f"Bearer {made.stdout.strip()}"},
        )
        assert answer.status_code == 422  # it has let us in, and there is nothing to read
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert subprocess.run(health, env=within, capture_output=True, check=False).returncode != 0


def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "database_password").mkdir()  # which not even root reads
    environ = {**os.environ, "WARPWATCH_SECRETS": str(tmp_path)}
    entry = [str(RECIPE / "entrypoint.sh"), "true"]
    done = subprocess.run(entry, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "database_password" in done.stderr
