"""`warpbench adopt PATTERN…`: benchmark files of the project, unchanged, become benchmarks of warpbench."""

import argparse
import ast
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..adopted import AdoptedBenchmark
from ..child_process import python_running
from ..project import Project, project_here

_LIMIT_S = 900
_MOST_PROCESSES = 4  # each has a CUDA context and the tensors of its file
_NOISE = {"bench", "benchmark", "benchmarks", "test", "speed", "performance", "perf"}
# Providers that a project compares itself with; the last resort where none is named like the project.
_REFERENCES = {
    *("torch", "pytorch", "eager", "aten", "native", "naive", "ref", "reference", "baseline", "compile", "compiled"),
    *("split", "unfused"),
    *("huggingface", "hf", "llama", "vllm", "flashinfer", "cublas", "cudnn", "apex", "jax"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adopted:
    """One class to be written."""

    class_name: str
    sweep: str
    kernels: tuple[str, ...]
    baselines: tuple[str, ...]
    cases: Sequence[Mapping[str, Any]]


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Offer the sub-command."""
    parser = commands.add_parser(
        "adopt",
        help="measure existing benchmark files unchanged",
        description="Run benchmark files up to what they would measure, and write a benchmark adopted_NAME.py for each "
        "into the benchmark directory: Triton's perf_report, Liger-Kernel's run_benchmarks, tritonbench's operators.",
    )
    parser.add_argument("patterns", nargs="+", metavar="PATTERN", help="files, such as 'benchmark/scripts/*.py'")
    parser.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="REGEX",
        help="providers that are the project's own, may be repeated; the others are baselines. Default: as the adopted "
        "benchmark has them, else those named like the project, else the first that is none of the usual baselines "
        "and those that begin with the same word",
    )
    parser.add_argument("--update", action="store_true", help="write a benchmark anew whose file measures other cases")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Adopt each file. Exit status 2 where no file is found, 1 where a file fails or none has anything to adopt."""
    project = project_here()
    files = sorted({file for pattern in arguments.patterns for file in _files(pattern)})
    if not files:
        print(f"warpbench adopt: no Python file is named {' or '.join(arguments.patterns)}", file=sys.stderr)
        sys.exit(2)
    adopted, failed = 0, 0
    for file, found in zip(files, _measured_by_each(files), strict=True):
        if "nothing" in found:
            print(f"{_shown(file)}: nothing to adopt: {found['nothing']}")
        elif "error" in found:
            failed += 1
            print(f"{_shown(file)}: not adopted: {found['error']}")
        else:
            adopted += 1
            for remark in found["remarks"]:
                print(f"{_shown(file)}: {remark}")
            _write(project, file, found["sweeps"], arguments)
    print(f"{adopted} of {len(files)} files adopted")
    if failed or not adopted:
        sys.exit(1)


def _files(pattern: str) -> Iterator[Path]:
    """Python files of a name or a pattern relative to the working directory."""
    found = [Path(pattern)] if Path(pattern).is_absolute() else Path().glob(pattern)
    yield from (file.resolve() for file in found if file.is_file() and file.suffix == ".py")


def _measured_by_each(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """What each file would measure, some files at a time: most of it is importing torch and the project."""
    with ThreadPoolExecutor(min(_MOST_PROCESSES, max(1, len(os.sched_getaffinity(0)) // 2))) as pool:
        yield from pool.map(_measured_by, files)


def _measured_by(file: Path) -> dict[str, Any]:
    """What a file would measure, found out in a process of its own; {"error": …} where it has nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "adopted.json"
        command = python_running("warpbench.adoption.adopted_file")
        try:
            done = subprocess.run(
                [*command, str(file), str(out)], capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"it did not come to what it measures within {_LIMIT_S} s"}
        if out.is_file():
            found: dict[str, Any] = json.loads(out.read_text())
            return found
        words = done.stderr.strip().splitlines()
        return {"error": f"its process ended with status {done.returncode}{f': {words[-1]}' if words else ''}"}


def _write(project: Project, file: Path, sweeps: Sequence[Mapping[str, Any]], arguments: argparse.Namespace) -> None:
    """The benchmark of one file, unless there is one already with other cases."""
    target = _target(project, file)
    stem = target.stem.removeprefix("adopted_")
    taken = _operators_elsewhere(project, target)
    remembered = _kernels_in(target)
    classes = [
        _adopted(sweep, stem, _kernels(sweep, _names(project), arguments.kernel, remembered), taken) for sweep in sweeps
    ]
    text = _text(target, file, classes)
    if target.is_file() and target.read_text() != text and not arguments.update:
        print(
            f"{_shown(file)}: kept {_shown(target)}, which differs from what the file measures now; "
            "--update rewrites it"
        )
        return
    ended = sorted(_names_in(target) - {case["name"] for each in classes for case in each.cases})
    target.write_text(text)
    for each in classes:
        print(
            f"{_shown(file)}: {len(each.cases)} cases of {each.sweep} in {_shown(target)}; "
            f"kernels {', '.join(each.kernels)}; baselines {', '.join(each.baselines) or 'none'}"
        )
    if ended:
        print(f"{_shown(file)}: these series end: {', '.join(ended)}")


def _target(project: Project, file: Path) -> Path:
    """The module of a file: of its own name, with its folder's where that name is another file's."""
    names = [_identifier(file.stem), _identifier(f"{file.parent.name}_{file.stem}")]
    if file.stem in ("operator", "__init__"):  # of tritonbench
        names = [_identifier(file.parent.name), _identifier(f"{file.parent.parent.name}_{file.parent.name}")]
    for name in names:
        target = project.benchmarks / f"adopted_{name}.py"
        if not target.is_file() or _file_line(target, file) in target.read_text():
            break
    return target


def _operators_elsewhere(project: Project, target: Path) -> set[str]:
    """Operators of the project's other benchmarks."""
    return {name for name, kind in project.operators.items() if kind.__module__.rpartition(".")[2] != target.stem}


def _adopted(sweep: Mapping[str, Any], stem: str, own: Collection[str], taken: Collection[str]) -> _Adopted:
    function = _identifier(sweep["name"])
    name = stem if function in ("", stem, "operator", "main") else f"{stem}_{function}"
    name = f"adopted_{name}" if name in taken else name
    return _Adopted(
        class_name="".join(part[:1].upper() + part[1:] for part in name.split("_")),
        sweep=sweep["name"],
        kernels=tuple(_attribute(each) for each in own),
        baselines=tuple(_attribute(each) for each in sweep["providers"] if each not in own),
        cases=[
            {**case, "providers": None if case["providers"] == sweep["providers"] else case["providers"]}
            for case in sweep["cases"]
        ],
    )


def _kernels(
    sweep: Mapping[str, Any],
    project: Collection[str],
    asked: Collection[str],
    remembered: Mapping[str, Collection[str]],
) -> list[str]:
    """The providers that are the project's own: as asked for, else as the adopted benchmark has them, else by name."""
    providers: list[str] = sweep["providers"]
    chosen = [each for each in providers if any(re.fullmatch(pattern, each) for pattern in asked)]
    chosen = chosen or [each for each in providers if _attribute(each) in remembered.get(sweep["name"], ())]
    if chosen:
        return chosen
    if sweep["baselines"]:  # tritonbench marks one; torch_compile_… are further ones
        others = [each for each in providers if each not in sweep["baselines"]]
        chosen = [each for each in others if not set(_words(each)) & _REFERENCES] or others
    chosen = chosen or [each for each in providers if any(_is_named_like(each, name) for name in project)]
    if not chosen:
        others = [each for each in providers if _words(each) and not set(_words(each)) & _REFERENCES]
        chosen = [each for each in others if _words(each)[0] == _words(others[0])[0]]
    return chosen or providers[:1]


def _names(project: Project) -> set[str]:
    """The project's names in small letters and digits: of its folder and of its distribution."""
    names = {project.folder.name}
    with contextlib.suppress(OSError, tomllib.TOMLDecodeError):
        described = tomllib.loads((project.folder / "pyproject.toml").read_text())
        names.add(str(described.get("project", {}).get("name", "")))
    return {plain for name in names if (plain := re.sub(r"[^a-z0-9]", "", name.lower()))}


def _kernels_in(target: Path) -> dict[str, list[str]]:
    """The kernels of each sweep in an adopted benchmark, which somebody may have edited."""
    found: dict[str, list[str]] = {}
    for node in ast.parse(target.read_text()).body if target.is_file() else ():
        values = {
            each.targets[0].id: each.value
            for each in (node.body if isinstance(node, ast.ClassDef) else ())
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
        }
        with contextlib.suppress(KeyError, ValueError):  # not written by adopt, or edited into something else
            found[ast.literal_eval(values["sweep"])] = list(ast.literal_eval(values["kernels"]))
    return found


def _is_named_like(provider: str, project: str) -> bool:
    """sgl-kernel is of sglang, liger_fused of LigerKernel."""
    first = (_words(provider) or [""])[0]
    return len(first) > 2 and (project.startswith(first) or first.startswith(project))


def _words(provider: str) -> list[str]:
    return [part for part in re.split(r"[^a-z0-9]+", provider.lower()) if part]


def _attribute(provider: str) -> str:
    """The provider's name in a class, which may have something of that name."""
    return f"{provider}#1" if hasattr(AdoptedBenchmark, provider) else provider


def _identifier(text: str) -> str:
    """`rms_norm` of `benchmark_rms_norm` and of `02-rms-norm`."""
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]
    parts = [part for part in parts if part.lower() not in _NOISE and not (part.isdigit() and part is parts[0])]
    name = "_".join(parts).lower()
    return f"n{name}" if name[:1].isdigit() else name


def _file_line(target: Path, file: Path) -> str:
    return f"    file = {_literal(os.path.relpath(file, target.parent))}\n"


def _text(target: Path, file: Path, classes: Sequence[_Adopted]) -> str:
    lines = [
        f'"""Adopted from {file.name} by `warpbench adopt`, which writes it anew with --update.',
        "",
        "The names of the cases are those of their series: a case that is taken out or renamed ends its series.",
        "warpbench times the calls that the file gives to do_bench; of do_bench's options only grad_to_none counts.",
        '"""',
        "",
        "from warpbench import AdoptedBenchmark, AdoptedCase",
        "",
    ]
    for each in classes:
        lines += ["", f"class {each.class_name}(AdoptedBenchmark):", _file_line(target, file).rstrip("\n")]
        lines += [
            f"    sweep = {_literal(each.sweep)}",
            f"    kernels = {_literal(each.kernels)}",
            f"    baselines = {_literal(each.baselines)}",
        ]
        lines += ["    cases = [", *(f"        {_case(case)}," for case in each.cases), "    ]", ""]
    return "\n".join(lines)


def _case(case: Mapping[str, Any]) -> str:
    options = f", dtype={_literal(case['dtype'])}" if case["dtype"] else ""
    if case["providers"] is not None:
        options += f", implementations={_literal([_attribute(each) for each in case['providers']])}"
    return f"AdoptedCase({_literal(case['name'])}, {_literal(case['shape'])}{options})"


def _literal(value: Any) -> str:
    """Python text of a value, with double quotes as formatters like them."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(name)}: {_literal(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def _names_in(target: Path) -> set[str]:
    return set(re.findall(r'AdoptedCase\("([^"]+)"', target.read_text())) if target.is_file() else set()


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
