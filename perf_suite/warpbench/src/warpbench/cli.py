"""The command `warpbench`; each module of `commands` is a sub-command."""

import argparse
import importlib
import pkgutil
import sys

from . import commands
from .commands import run
from .project import NoProjectError


def main(arguments: list[str] | None = None) -> None:
    """Hand the arguments to the command that they name. Exit status 2 where there is no project to measure."""
    parser = argparse.ArgumentParser(prog="warpbench", description="Measure GPU kernels: right first, then fast.")
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}").add_parser(parsers)
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["run"]:  # its options depend on the operator
            run.run(words[1:])
        else:
            parsed = parser.parse_args(words)
            parsed.run(parsed)
    except NoProjectError as error:
        print(f"warpbench: {error}", file=sys.stderr)
        sys.exit(2)
