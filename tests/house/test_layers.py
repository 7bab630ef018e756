"""Layers inside dashboard and ci: each imports itself and what is below it, relatively."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]

# From the bottom up. A layer may import those before it, and those of its own line.
LAYERS = {
    "dashboard": (
        ("settings", "executors"),
        ("model",),
        ("statistics",),
        ("store",),
        ("importers",),
        ("analysis",),
        ("text",),
        ("web",),
        ("cli",),
    ),
    "ci": (
        ("acceptance",),
        ("policy",),
        ("host_lock", "asv_checkout", "retries", "options"),
        ("gate",),
        ("code",),
        ("forges",),
        ("reports",),
        ("pull_requests",),
        ("bisect", "push", "alerts"),
        ("runner",),
        ("make_run",),
        ("cli",),
    ),
}
# Importer and what it imports from above it. This list only shrinks.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("dashboard", "dashboard.cli"): "`warpwatch.dashboard.history` is for notebooks, and is loaded on demand",
}


@cache
def _imports(path: Path) -> tuple[tuple[ast.ImportFrom | ast.Import, str], ...]:
    """Every import of a file, at any depth, with the absolute name of the module without `warpwatch.`."""
    package = path.relative_to(HOUSE).parent.parts
    found: list[tuple[ast.ImportFrom | ast.Import, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node, alias.name.removeprefix("warpwatch.")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += [node.module.removeprefix("warpwatch.")] if node.module else []
            found += [(node, ".".join([*base, alias.name])) for alias in node.names]
    return tuple(found)


def _sources(room: str) -> list[Path]:
    """The room's modules. Alembic runs migrations outside their package."""
    return [path for path in (HOUSE / room).rglob("*.py") if not {"static", "migrations"} & {*path.parts}]


def _layer(module: str) -> str:
    """The first two parts of a module's name: `dashboard.store`."""
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("room", LAYERS)
def test_layers_import_what_is_below_them(room: str) -> None:
    rank = {f"{room}.{name}": number for number, names in enumerate(LAYERS[room]) for name in names}
    upward = set()
    for path in _sources(room):
        importer = _layer(_module(path))
        assert importer == room or importer in rank, f"{path.relative_to(HOUSE)} is in no layer: list it in LAYERS"
        for _, module in _imports(path):
            target = _layer(module)
            if target in rank and rank[target] > rank.get(importer, -1) and target != importer:
                upward.add((importer, target))
    assert upward == {pair for pair in EXCEPTIONS if pair[1].split(".")[0] == room}


@pytest.mark.parametrize("room", LAYERS)
def test_imports_inside_a_room_are_relative(room: str) -> None:
    absolute = [
        f"{path.relative_to(HOUSE)}:{node.lineno}"
        for path in _sources(room)
        for node, module in _imports(path)
        if module.split(".")[0] == room and not (isinstance(node, ast.ImportFrom) and node.level)
    ]
    assert absolute == []


@pytest.mark.parametrize("room", LAYERS)
def test_every_module_can_be_imported_first(room: str) -> None:
    """No module imports itself through others while it loads. A module loads the packages of what it imports, too."""
    modules = {_module(path): path for path in _sources(room)}
    loads: dict[str, set[str]] = {}
    for name, path in modules.items():
        targets = (target for node, target in _imports(path) if node.col_offset == 0)
        parents = {".".join(parts[:end]) for target in targets for parts in [target.split(".")] for end in range(1, 9)}
        loads[name] = {each for each in parents & modules.keys() if not f"{name}.".startswith(f"{each}.")}
    TopologicalSorter(loads).prepare()  # raises CycleError, which lists the cycle


def _module(path: Path) -> str:
    """A file's module, without `warpwatch.`."""
    return ".".join(part for part in path.relative_to(HOUSE).with_suffix("").parts if part != "__init__")
