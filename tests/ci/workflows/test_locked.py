"""What jobs with a right to write install is named file by file, and is what setup.py asks for."""

import ast
import re
import tomllib

from packaging.requirements import Requirement

from .workflow_files import ACTIONS, ROOT, read

_HASHES = r"((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; [^\\]+)? \\\n" + _HASHES, re.MULTILINE)
LOCKED = (ACTIONS / "warpwatch/locked.txt").read_text()


def locked():
    """Versions by name."""
    return {name.lower(): version for name, version, _ in _ENTRY.findall(LOCKED)}


def wanted():
    """What warpwatch needs to be installed, and to be built."""
    calls = (node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.Call))
    given = {word.arg: word.value for call in calls for word in call.keywords}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    return [Requirement(each) for each in [*ast.literal_eval(given["install_requires"]), *build]]


def unmet(found):
    """Requirements without a locked version, or with one that they do not take."""
    return [str(one) for one in wanted() if one.name not in found or found[one.name] not in one.specifier]


def test_every_line_has_one_version_and_its_hashes():
    rest = _ENTRY.sub("", LOCKED)
    assert [line for line in rest.splitlines() if not line.startswith("#")] == []
    assert len(locked()) > 40


def test_it_has_what_setup_asks_for():
    assert len(wanted()) > 20
    assert unmet(locked()) == []
    older = {**locked(), "flask": "2.0"}
    del older["ninja"]
    assert unmet(older) == ["flask>=3.1", "ninja"]


def test_what_may_write_installs_nothing_else():
    [step] = read(ACTIONS / "warpwatch/action.yml")["runs"]["steps"]
    installs = [line.strip() for line in step["run"].splitlines() if line.strip().startswith("install --")]
    assert installs == [
        'install --require-hashes --no-deps --requirement "$SOURCE/.github/actions/warpwatch/locked.txt"',
        'install --no-build-isolation --no-deps "$(realpath "$SOURCE")"',
    ]
