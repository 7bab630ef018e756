"""Jobs with write permission install files that are pinned one by one and meet the requirements of setup.py."""

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


def required():
    """What warpwatch needs to be installed with the extras of the Makefile's `locked`, and to be built."""
    calls = (node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.Call))
    given = {word.arg: word.value for call in calls for word in call.keywords}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    extras = ast.literal_eval(given["extras_require"])
    chosen = [each for name in ("alerts", "forges", "postgresql") for each in extras[name]]
    listed = [Requirement(each) for each in [*ast.literal_eval(given["install_requires"]), *chosen, *build]]
    return [one for one in listed if one.name != "warpwatch"]  # an extra that another one has in it


def unmet(found):
    """Requirements without a locked version, or with one that they do not take."""
    return [str(one) for one in required() if one.name not in found or found[one.name] not in one.specifier]


def test_every_line_has_one_version_and_its_hashes():
    rest = _ENTRY.sub("", LOCKED)
    assert [line for line in rest.splitlines() if not line.startswith("#")] == []
    assert len(locked()) > 40


def test_the_lock_has_the_requirements_of_setup():
    assert len(required()) > 20
    assert unmet(locked()) == []
    older = {**locked(), "flask": "2.0"}
    del older["ninja"]
    assert [Requirement(one).name for one in unmet(older)] == ["flask", "ninja"]


def test_jobs_with_write_permission_install_only_the_lock():
    [step] = read(ACTIONS / "warpwatch/action.yml")["runs"]["steps"]
    installs = [line.strip() for line in step["run"].splitlines() if line.strip().startswith("install --")]
    assert installs == [
        'install --require-hashes --no-deps --requirement "$SOURCE/.github/actions/warpwatch/locked.txt"',
        'install --no-build-isolation --no-deps "$(realpath "$SOURCE")"',
    ]


def test_versions_with_known_advisories_are_not_admitted():
    """The last one that an advisory names, of each."""
    advised = {"waitress": "3.0.0", "jinja2": "3.1.5", "requests": "2.32.3", "flask": "3.1.0", "orjson": "3.11.5"}
    admitted = {one.name: one.specifier for one in required()}
    assert [name for name, version in advised.items() if version in admitted[name]] == []


def test_deployments_install_locked_files_alone():
    dockerfile = (ROOT / "ci/recipes/dashboard/Dockerfile").read_text().replace("\\\n", " ")
    services = (ROOT / "ci/runner/README.md").read_text()
    for text in (dockerfile, services):
        installs = [line.split() for line in re.findall(r"/opt/warpwatch/bin/pip (install .*?)(?: && |\n)", text)]
        hashed, ours = installs
        assert {"--require-hashes", "--no-deps"} <= set(hashed)
        assert hashed[-1].endswith(".github/actions/warpwatch/locked.txt")
        assert {"--no-build-isolation", "--no-deps"} <= set(ours)


def test_the_locked_versions_are_audited():
    [step] = [step for step in read(ROOT / ".github/workflows/audit.yml")["jobs"]["audit"]["steps"] if "run" in step]
    assert "pip-audit" in step["run"]
    assert "--requirement .github/actions/warpwatch/locked.txt" in step["run"]
