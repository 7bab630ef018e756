"""`python -m perf_suite.compiled FILE`: one commit's compiled code as a file, for `warpwatch compare --code`."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from warpbench.compiled.cuda_binaries import NoToolsError

from .commit_code import read_commit_code
from .installed_kernels import NoKernelsError, kernels_folder

_PACKAGE = "kernels"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m perf_suite.compiled",
        description="Read the library built in a checkout and write, of each kernel for each architecture, what the "
        "compiler made of it. No GPU and no torch are needed.",
    )
    parser.add_argument("output", type=Path, metavar="FILE", help="JSON")
    parser.add_argument(
        "--checkout",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="of the commit, built with `python setup.py build_ext --inplace`; default: here",
    )
    arguments = parser.parse_args()
    write(arguments.checkout.resolve(), arguments.output)


def write(checkout: Path, output: Path) -> None:
    """Read and write. Exit status 2: there is nothing to read, and the sentence says why."""
    if not (checkout / _PACKAGE).is_dir():
        _refuse(f"{checkout} has no {_PACKAGE}/: --checkout wants a checkout of the project")
    if not (checkout / _PACKAGE / "__init__.py").is_file():
        _refuse(f"{checkout / _PACKAGE} is no package: it has no __init__.py")
    with tempfile.TemporaryDirectory() as importable:
        namespace = Path(importable) / "warpwatch"
        namespace.mkdir()
        (namespace / _PACKAGE).symlink_to(checkout / _PACKAGE)
        sys.path.insert(0, importable)
        try:
            if kernels_folder() != checkout / _PACKAGE:
                _refuse(f"Python imports {kernels_folder()} instead of {checkout / _PACKAGE}")
            text = read_commit_code(_commit(checkout))
        except (NoKernelsError, NoToolsError) as error:
            _refuse(str(error))
        finally:
            sys.path.remove(importable)
    output.write_text(text)


def _commit(checkout: Path) -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        _refuse(f"{checkout} is no git checkout: {done.stderr.strip()}")
    return done.stdout.strip()


def _refuse(sentence: str) -> NoReturn:
    print(f"compiled: {sentence}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
