"""The suite without asv: `python -m perf_suite COMMAND`; each module of `commands` is one."""

import argparse
import importlib
import pkgutil

from . import commands


def main() -> None:
    """Hand the arguments to the command that they name."""
    parser = argparse.ArgumentParser(prog="python -m perf_suite", description=__doc__)
    parsers = parser.add_subparsers(dest="command", required=True)
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}").add_parser(parsers)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
