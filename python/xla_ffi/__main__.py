"""``python -m xla_ffi``: the command line of the package."""

import argparse
import os
import sys

from . import _installation
from ._errors import LibraryError


def main(arguments=None):
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m xla_ffi", description="Print folders of the package, write stub files, and list the handlers of models.")
    places = parser.add_mutually_exclusive_group()
    for option, place, what in (
        ("--include-dir", _installation.include, "the C and C++ headers, for the compiler option -I"),
        ("--cmake-dir", _installation.cmake, "the CMake package, for xla_ffi_DIR"),
        ("--lib-dir", _installation.lib, "the embedded runtime, for the linker option -L"),
    ):
        places.add_argument(option, dest="place", action="store_const", const=place, help=f"print the folder of {what}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    stubs = commands.add_parser("stubs", help="write a stub file (.pyi) of a library")
    stubs.add_argument("library", metavar="LIB", help="path of the library")
    stubs.add_argument("-o", "--output", metavar="FILE", help="write to this file [default: standard output]")
    stubs.set_defaults(run=_run_stubs)
    needs = commands.add_parser("needs", help="list the handlers that a model calls")
    needs.add_argument("model", metavar="MODEL", help="file of jax.export, or StableHLO")
    needs.add_argument("--lib", metavar="LIB", action="append", default=[], help="look for the handlers in this library; may be repeated [default: none]")
    needs.set_defaults(run=_run_needs)
    given = parser.parse_args(arguments)
    if (given.place is None) == (given.command is None):
        parser.error("expected one command, or one of --include-dir, --cmake-dir and --lib-dir")
    return _guarded(lambda: print(given.place()) if given.place is not None else given.run(given))


def _run_stubs(given):
    from . import _stubs

    text = _stubs.of(os.fspath(given.library))
    if given.output is None:
        _write(text)
        return
    with open(given.output, "w", encoding="utf-8") as file:
        file.write(text)


def _run_needs(given):
    from . import _export

    text, good = _export.report(given.model, given.lib)
    _write(text)
    return 0 if good else 1


def _guarded(work):
    """Returns the exit status of ``work``. If ``work`` raises an error, prints the error to standard error and returns
    1."""
    try:
        return work() or 0
    except (LibraryError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def _write(text):
    """Writes text to standard output in UTF-8, the encoding of stub files, independently of the locale."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
