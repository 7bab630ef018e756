"""A plain installation is enough for the dashboard, and a command that needs an extra says which.

Every library that `pip install warpwatch` does not bring is hidden from the processes under test.
"""

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.asv_results import AsvResults
from warpwatch.ci.cli import _COMMANDS, _FORGE

pytestmark = pytest.mark.outside

ROOT = Path(__file__).resolve().parents[2]
_HIDING = """
import sys
class Hidden:
    names = frozenset({names!r})
    def find_spec(self, name, *rest):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
_COMMAND = "from warpwatch.ci.cli import main; main()"
_EACH_COMMAND = """
import click, json
from warpwatch.ci.cli import _COMMANDS, _FORGE, forge, main
errors = {}
for group, table, prefix in ((main, _COMMANDS, ""), (forge, _FORGE, "forge ")):
    for name in table:
        try:
            errors[prefix + name] = None if group.get_command(None, name).name == name else "has another name"
        except click.ClickException as error:
            errors[prefix + name] = [error.exit_code, error.message]
print(json.dumps(errors))
"""
_HELP = """
from warpwatch.ci.cli import main
main(["--help"], standalone_mode=False)
print(*sys.modules)
"""


def _required() -> list[Requirement]:
    """setup.py's `install_requires`."""
    calls = (node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.Call))
    given = {word.arg: word.value for call in calls for word in call.keywords}
    return [Requirement(each) for each in ast.literal_eval(given["install_requires"])]


def _installed_by(required: list[Requirement]) -> set[str]:
    """The distributions that pip installs for these requirements."""
    found: set[tuple[str, str]] = set()
    waiting = [(each, extra) for each in required for extra in ("", *each.extras)]
    while waiting:
        one, extra = waiting.pop()
        if (key := (canonicalize_name(one.name), extra)) in found:
            continue
        found.add(key)
        for each in map(Requirement, importlib.metadata.requires(one.name) or ()):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                waiting += [(each, inner) for inner in ("", *each.extras)]
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def plain() -> str:
    """Python code that hides what a plain installation does not have."""
    installed = _installed_by(_required()) | {"warpwatch"}
    names = sorted(
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not installed & {canonicalize_name(owner) for owner in owners}
    )
    assert {"torch", "pandas", "apprise", "githubkit", "gitlab", "asv"} <= set(names)
    return _HIDING.format(names=names)


def _run(code: str, *arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_command_loads_or_names_its_extra(plain: str) -> None:
    errors = json.loads(_run(plain + _EACH_COMMAND))
    for name, command in [*_COMMANDS.items(), *((f"forge {name}", one) for name, one in _FORGE.items())]:
        if command.extra is None:
            assert errors[name] is None
        else:
            status, message = errors[name]
            assert status == 2  # 1 means "regressed" to scripts
            install = re.escape(f"pip install 'warpwatch[{command.extra}]'")
            assert re.fullmatch(rf"warpwatch {name} needs \w+: {install}", message)


def test_a_missing_extra_is_one_line_and_no_verdict(plain: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", plain + _COMMAND, "alert", "--dry-run"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "Error: warpwatch alert needs codeowners: pip install 'warpwatch[alerts]'\n"


def test_the_list_of_commands_loads_none_of_them() -> None:
    *words, modules = _run("import sys\n" + _HELP).rstrip("\n").split("\n")
    listed = {name for line in words for name in re.findall(r"^  ([a-z-]+)  +[A-Z]", line)}
    assert listed >= _COMMANDS.keys()
    assert not {"numpy", "sqlalchemy", "flask", "pydantic", "requests"} & set(modules.split())


def test_a_plain_installation_imports_and_serves_the_first_page(plain: str, tmp_path: Path) -> None:
    asv = AsvResults(tmp_path / "results")
    asv.benchmark("suite.Sort.time_sort")
    asv.commit(1, {"suite.Sort.time_sort": asv.row([1e-3])})
    database = f"sqlite:///{tmp_path / 'history.db'}"
    _run(plain + _COMMAND, "import", asv.folder, "--project", "sorting", "--database", database)
    serve = [sys.executable, "-u", "-c", plain + _COMMAND, "serve", "--port", "0", "--database", database]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+/", server.stdout.readline())
            assert found is not None
            with urllib.request.urlopen(found[0]) as page:
                assert re.search(r"<title>[^<]*sorting", page.read().decode())
        finally:
            server.terminate()
