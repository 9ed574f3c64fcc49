"""Work in a child process, forked before any backend exists: what crashes or hangs there is one result."""

import json
import os
import select
import signal
import tempfile
import time
import warnings

LIMIT_SECONDS = 120


def forked(work, limit=LIMIT_SECONDS):
    """What ``work`` gives, a dictionary, or None and what became of the child."""
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
