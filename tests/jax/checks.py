"""Helpers for drivers: checks, the libraries on the command line, and work in a child process.

Each check prints `ok NAME`, `FAIL NAME: why` or `skipped NAME: why`. A test framework is not needed.
"""

import dataclasses
import functools
import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings

_failed = 0
_folders = []


class Skip(Exception):
    """Raised if a check cannot run. The text is the reason."""


def skip(why):
    """Ends the running check as skipped."""
    raise Skip(why)


def check(name, work, quiet=False):
    """Runs one check and prints its result. If `quiet`, prints nothing for a check that passes."""
    global _failed
    name = name.splitlines()[0]
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
    """Fails unless ``work`` raises ``kind`` with all of ``texts`` in its message."""
    try:
        work()
    except kind as error:
        missing = [text for text in texts if text not in str(error)]
        if missing:
            raise AssertionError(f"{missing} not in {error}") from error
        return
    raise AssertionError(f"no {kind.__name__}")


def folder():
    """Returns a new folder that is kept until the driver ends, because loaded libraries and recordings may be used
    after their check."""
    _folders.append(tempfile.TemporaryDirectory(prefix="xla_ffi_test.", ignore_cleanup_errors=True))
    return pathlib.Path(_folders[-1].name)


def finish():
    """Removes the folders and exits with status 1 if a check failed."""
    for kept in _folders:
        kept.cleanup()
    sys.exit(1 if _failed else 0)


_TABLE = pathlib.Path(__file__).resolve().parents[2] / "examples/examples.json"


@functools.cache
def table():
    """Returns the examples in `examples/examples.json` by name."""
    with open(_TABLE, encoding="utf-8") as file:
        return {entry["example"]: entry for entry in json.load(file)}


@dataclasses.dataclass(frozen=True)
class Built:
    """The library of one example in one language."""

    name: str
    language: str
    example: str
    file: str

    @property
    def path(self):
        """The path of the library's file. Skips the check if the library was not built."""
        return self.file or skip(f"no {self.language} compiler")

    @property
    def calls(self):
        """The example's calls for this language."""
        return [call for call in table()[self.example]["calls"] if self.language in call.get("languages", [self.language])]


def built(arguments):
    """Yields the libraries in a driver's arguments, ``LANGUAGE:EXAMPLE=PATH``.

    The path is empty if there is no compiler for the language.
    """
    for argument in arguments:
        name, _, file = argument.partition("=")
        language, _, example = name.partition(":")
        yield Built(name, language, example, file)


LIMIT_SECONDS = 120


def forked(work, limit=LIMIT_SECONDS):
    """Runs ``work`` in a child process. Returns the dictionary that ``work`` returned, or None and a description of the
    child's end.

    A crash or a timeout of the child does not affect the driver. The child is forked before any backend is initialized.
    """
    start = time.monotonic()
    read, write = os.pipe()
    with tempfile.TemporaryFile() as log:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            os.close(read)
            os.dup2(log.fileno(), 2)
            try:
                result = work()
                with os.fdopen(write, "w") as pipe:
                    json.dump(result, pipe)
            finally:
                # Skip the interpreter's shutdown, because handler threads may still be running.
                os._exit(0)
        os.close(write)
        text = _read_all(read, start + limit)
        if text is None:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        log.seek(0)
        tail = " ".join(log.read().decode(errors="replace").split())[-600:]
    if text is None:
        return None, f"no result within {limit} s: {tail}"
    if text:
        return json.loads(text), ""
    if os.WIFSIGNALED(status):
        return None, f"crash, {signal.Signals(os.WTERMSIG(status)).name}: {tail}"
    return None, f"ended without a result ({status}): {tail}"


def _read_all(pipe, deadline):
    """Returns the child's output until it closes the pipe, or None if the deadline passes."""
    data = b""
    with os.fdopen(pipe, "rb", buffering=0) as file:
        while True:
            ready, _, _ = select.select([file], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return None
            piece = file.read(65536)
            if not piece:
                return data
            data += piece
