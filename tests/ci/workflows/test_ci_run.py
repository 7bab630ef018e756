"""`.ci/run` installs the packages that a machine lacks, on Debian, on Ubuntu, and where GitHub put a browser."""

import shutil
import subprocess
from pathlib import Path

import pytest

from .workflow_files import ROOT

ALL = {"postgresql", "nginx", "g++", "make", "git", "python3-venv"}
DPKG = """#!/bin/bash
[[ " $INSTALLED " == *" ${!#} "* ]] && printf installed
"""
# Ubuntu's: one package that it does not have, and it installs none.
APT = """#!/bin/bash
[[ $1 == install ]] || exit 0
[[ $UNKNOWN && " $* " == *" $UNKNOWN "* ]] && { echo "E: Package '$UNKNOWN' has no installation candidate"; exit 100; }
for word; do [[ $word == -* || $word == install ]] || echo "$word" >> "$ASKED"; done
"""


@pytest.fixture
def machine(tmp_path):
    """Runs the script on a machine with these packages and browsers; what was installed, or None where it failed."""
    checkout, programs, calls = tmp_path / "checkout", tmp_path / "bin", tmp_path / "asked"
    (checkout / ".ci").mkdir(parents=True)
    programs.mkdir()
    shutil.copy2(ROOT / ".ci/run", checkout / ".ci/run")
    for name in ("bash", "dirname", "grep", "id"):
        (programs / name).symlink_to(shutil.which(name))

    def program(name, text="#!/bin/bash\n"):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    program("dpkg-query", DPKG)
    program("apt-get", APT)
    program("sudo", '#!/bin/bash\nexec "$@"\n')
    program("make", f'#!/bin/bash\necho "$@" > {tmp_path}/made\n')

    def run(installed, browser=None, unknown=""):
        if browser:
            program(browser)
        environment = {"PATH": str(programs), "INSTALLED": " ".join(installed), "ASKED": str(calls), "UNKNOWN": unknown}
        done = subprocess.run(
            [shutil.which("bash"), str(checkout / ".ci/run")],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return None
        assert Path(tmp_path / "made").read_text() == "test WARPWATCH_CUDA_ARCHS=all\n"
        return set(calls.read_text().split()) if calls.exists() else set()

    return run


def test_a_bare_debian_gets_its_chromium(machine):
    assert machine([]) == ALL | {"chromium"}


def test_installed_programs_are_not_installed_again(machine):
    assert machine([*ALL, "chromium"], "chromium") == set()
    assert machine(ALL - {"nginx"}, "chromium") == {"nginx"}


@pytest.mark.parametrize("browser", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_of_no_package_is_enough_where_there_is_no_package(machine, browser):
    assert machine(ALL - {"git", "nginx"}, browser, unknown="chromium") == {"git", "nginx"}


def test_without_browser_and_package_it_fails(machine):
    assert machine(ALL, unknown="chromium") is None
