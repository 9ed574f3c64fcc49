"""What drivers share: checks, the libraries that the task passes them, and work in a child process.

Each check prints `ok NAME`, `FAIL NAME: why` or `skipped NAME: why`: a few lines in place of a test framework.
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


_TABLE = pathlib.Path(__file__).resolve().parents[2] / "examples/examples.json"


@functools.cache
def table():
    """Every example of the table by its name."""
    with open(_TABLE, encoding="utf-8") as file:
        return {entry["example"]: entry for entry in json.load(file)}


@dataclasses.dataclass(frozen=True)
class Built:
    """One example's library in one language."""

    name: str
    language: str
    example: str
    file: str

    @property
    def path(self):
        """The library's file; skips the check where there is none."""
        return self.file or skip(f"no {self.language} compiler")

    @property
    def calls(self):
        """The example's calls that are for this language."""
        return [call for call in table()[self.example]["calls"] if self.language in call.get("languages", [self.language])]


def built(arguments):
    """The libraries that a driver's arguments name: ``LANGUAGE:EXAMPLE=PATH``, without a path where the language has no
    compiler here."""
    for argument in arguments:
        name, _, file = argument.partition("=")
        language, _, example = name.partition(":")
        yield Built(name, language, example, file)


LIMIT_SECONDS = 120


def forked(work, limit=LIMIT_SECONDS):
    """What ``work`` gives in a child process, a dictionary, or None and what became of the child: a crash or a hang there is
    one result. The child is forked before any backend exists."""
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
                # No interpreter shutdown: handler threads may still be running.
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
    """What the child writes until it closes the pipe; None where it takes too long."""
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
