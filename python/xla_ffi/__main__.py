"""``python -m xla_ffi``: what can be asked of libraries without writing a program."""

import argparse
import os
import sys

from . import LibraryError, _export, _stubs


def main(arguments=None):
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m xla_ffi", description="Asks libraries made with the SDK.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    stubs = commands.add_parser("stubs", help="write a stub file (.pyi) of a library, from its manifest")
    stubs.add_argument("library", metavar="LIB")
    stubs.add_argument("-o", "--output", metavar="FILE", help="where to; to standard output unless given")
    stubs.set_defaults(run=_run_stubs)
    needs = commands.add_parser("needs", help="tell which handlers a model calls (jax.export's, or StableHLO)")
    needs.add_argument("model", metavar="MODEL")
    needs.add_argument("--lib", metavar="LIB", action="append", default=[], help="a library that may have them")
    needs.set_defaults(run=_run_needs)
    given = parser.parse_args(arguments)
    try:
        return given.run(given) or 0
    except (LibraryError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run_stubs(given):
    text = _stubs.of(os.fspath(given.library))
    if given.output is None:
        sys.stdout.write(text)
        return
    with open(given.output, "w", encoding="utf-8") as file:
        file.write(text)


def _run_needs(given):
    text, good = _export.report(_export.needs(given.model), given.lib)
    sys.stdout.write(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
