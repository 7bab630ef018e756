"""The arrows of the house run one way: kernels <- perf_suite, dashboard <- ci, tests read everything."""

import ast
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]

# What each room may import of ours. Between perf_suite and dashboard the arrow is a file format, not an import.
ALLOWED = {
    "kernels": {"kernels"},
    "perf_suite": {"perf_suite", "kernels"},
    "dashboard": {"dashboard"},
    "ci": {"ci", "dashboard"},
    "tools": {"tools", "ci", "dashboard"},
}
ROOM_OF_MODULE = {
    "warpwatch.kernels": "kernels",
    "warpwatch.dashboard": "dashboard",
    "warpwatch.ci": "ci",
    "perf_suite": "perf_suite",
    "tools": "tools",
    "tests": "tests",
}
NO_TORCH = ("dashboard", "ci", "perf_suite/warpbench/src/warpbench/records.py")


def _imported_modules(source: str, package: str) -> set[str]:
    """Absolute names of all modules a source imports, at any depth; relative ones resolved against `package`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parent, *([node.module] if node.module else [])])
            # `from warpwatch import kernels` names a room only together with what it imports.
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def _room(module: str) -> str | None:
    for prefix, room in ROOM_OF_MODULE.items():
        if module == prefix or module.startswith(prefix + "."):
            return room
    return None


def _sources(room: str) -> list[Path]:
    return [path for path in (HOUSE / room).rglob("*.py") if "static" not in path.parts]


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_its_readme_allows(room: str) -> None:
    sources = _sources(room)
    assert sources, f"no Python files in {room}/"
    turned = []
    for path in sources:
        prefix = room if room in {"perf_suite", "tools"} else f"warpwatch.{room}"
        package = ".".join([prefix, *path.relative_to(HOUSE / room).parent.parts])
        for module in _imported_modules(path.read_text(), package):
            target = _room(module)
            if target is not None and target not in ALLOWED[room]:
                turned.append(f"{path.relative_to(HOUSE)} imports {module}")
    assert turned == []


def test_the_instrument_imports_itself_relatively() -> None:
    """asv loads perf_suite under a name of its own choosing; an absolute import would load it twice."""
    absolute = [
        f"{path.relative_to(HOUSE)}: {module}"
        for path in _sources("perf_suite")
        for node in ast.walk(ast.parse(path.read_text()))
        for module in (
            [node.module]
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if module.split(".")[0] == "perf_suite"
    ]
    assert absolute == []


def test_the_dashboard_runs_without_torch() -> None:
    heavy = {"torch", "triton"}
    offenders = []
    for place in NO_TORCH:
        paths = [HOUSE / place] if place.endswith(".py") else _sources(place)
        for path in paths:
            if heavy & {module.split(".")[0] for module in _imported_modules(path.read_text(), "x")}:
                offenders.append(str(path.relative_to(HOUSE)))
    assert offenders == []


def test_every_room_says_what_lives_there() -> None:
    for room in (*ALLOWED, "tests"):
        assert (HOUSE / room / "README.md").is_file(), f"{room}/README.md is missing"


def test_the_rule_reads_every_way_of_importing() -> None:
    """The reader itself: a turned arrow in any spelling is seen."""
    seen = _imported_modules(
        "from warpwatch import kernels\nimport warpwatch.ci.cli\nfrom ..store import models\nfrom . import x",
        "warpwatch.dashboard.web.pages",
    )
    assert {_room(module) for module in seen} == {"kernels", "ci", "dashboard"}
