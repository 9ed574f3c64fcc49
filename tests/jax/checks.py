"""A few lines in place of a test framework: each check prints `ok NAME`, `FAIL NAME: why` or `skipped NAME: why`."""

import pathlib
import sys
import tempfile
import traceback

_failed = 0
_folders = []


class Skip(Exception):
    """A check that cannot run here; the text is the reason."""


def skip(why):
    """Ends the running check as skipped."""
    raise Skip(why)


def check(name, work, quiet=False):
    """Runs one check; a quiet one that is good says nothing."""
    global _failed
    try:
        work()
        if not quiet:
            print(f"ok {name}", flush=True)
    except Skip as why:
        print(f"skipped {name}: {why}", flush=True)
    except Exception as error:
        _failed += 1
        print(f"FAIL {name}: {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
        traceback.print_exc()


def raises(kind, work, *texts):
    """``work`` must raise ``kind`` with every one of ``texts`` in its message."""
    try:
        work()
    except kind as error:
        missing = [text for text in texts if text not in str(error)]
        if missing:
            raise AssertionError(f"{missing} not in {error}") from error
        return
    raise AssertionError(f"no {kind.__name__}")


def folder():
    """A new folder, kept until the driver ends: libraries loaded from it and recordings in it may outlive their check."""
    _folders.append(tempfile.TemporaryDirectory(prefix="xla_ffi_test.", ignore_cleanup_errors=True))
    return pathlib.Path(_folders[-1].name)


def finish():
    """Ends the driver."""
    for kept in _folders:
        kept.cleanup()
    sys.exit(1 if _failed else 0)
