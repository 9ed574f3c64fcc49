"""``python -m xla_ffi``: what can be asked of libraries without writing a program."""

import argparse
import os
import sys

from . import _installation
from ._errors import LibraryError


def main(arguments=None):
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m xla_ffi", description="Asks libraries made with the SDK.")
    places = parser.add_mutually_exclusive_group()
    for option, place, what in (
        ("--include-dir", _installation.include, "the C and C++ headers, for a compiler's -I"),
        ("--cmake-dir", _installation.cmake, "what find_package(xla_ffi) reads, for xla_ffi_DIR"),
        ("--lib-dir", _installation.lib, "the embedded runtime, for a linker's -L"),
    ):
        places.add_argument(option, dest="place", action="store_const", const=place, help=f"print the folder of {what}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    stubs = commands.add_parser("stubs", help="write a stub file (.pyi) of a library, from its manifest")
    stubs.add_argument("library", metavar="LIB")
    stubs.add_argument("-o", "--output", metavar="FILE", help="where to; to standard output unless given")
    stubs.set_defaults(run=_run_stubs)
    needs = commands.add_parser("needs", help="tell which handlers a model calls (jax.export's, or StableHLO)")
    needs.add_argument("model", metavar="MODEL")
    needs.add_argument("--lib", metavar="LIB", action="append", default=[], help="a library that may have them")
    needs.set_defaults(run=_run_needs)
    given = parser.parse_args(arguments)
    if (given.place is None) == (given.command is None):
        parser.error("name one command, or one of --include-dir, --cmake-dir and --lib-dir")
    return _guarded(lambda: print(given.place()) if given.place is not None else given.run(given))


def _run_stubs(given):
    from . import _stubs

    text = _stubs.of(os.fspath(given.library))
    if given.output is None:
        _say(text)
        return
    with open(given.output, "w", encoding="utf-8") as file:
        file.write(text)


def _run_needs(given):
    from . import _export

    text, good = _export.report(given.model, given.lib)
    _say(text)
    return 0 if good else 1


def _guarded(work):
    """What ``work`` gives, or 1 and its error on standard error."""
    try:
        return work() or 0
    except (LibraryError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def _say(text):
    """Writes to standard output, in UTF-8 whatever the locale: it is what a stub file is in."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
