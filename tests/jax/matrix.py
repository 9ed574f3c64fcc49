"""Runs features of one library on this process's jaxlib, each in a child of its own.

usage: matrix.py KIND=LIBRARY… --twin KIND=LIBRARY… --bootstrap LIBRARY [--feature NAME]…

Prints one line of JSON a cell: {"library", "feature", "cell", "message", "seconds"}. jax is imported
once; each child is forked before any backend exists, so a crash, a hang or a spoilt registry is one
cell's matter.
"""

import argparse
import contextlib
import io
import json
import os
import select
import signal
import sys
import tempfile
import time
import warnings

# Two CPU devices, for ordinals and sharding; set before jax looks.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)

import features  # noqa: E402
import legacy  # noqa: E402, F401 (its features enter the table)
from cells import verdict  # noqa: E402

LIMIT_SECONDS = 120


def child(kind, path, twin, bootstrap, original, feature, out):
    """Runs one feature and writes its cell."""
    world = features.World(kind, path, twin, bootstrap, original)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            features.FEATURES[feature](world)
        cell, message = "ok", ""
    except BaseException as error:  # whatever it is, it is this cell's result
        cell, message = verdict(error)
    with os.fdopen(out, "w") as pipe:
        json.dump({"cell": cell, "message": message[:2000]}, pipe)


def run(kind, path, twin, bootstrap, original, feature):
    """One cell."""
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
                child(kind, path, twin, bootstrap, original, feature, write)
            finally:
                # No interpreter shutdown: handler threads may still be running.
                os._exit(0)
        os.close(write)
        text = read_all(read, start + LIMIT_SECONDS)
        if text is None:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        log.seek(0)
        tail = " ".join(log.read().decode(errors="replace").split())[-600:]
    if text is None:
        result = {"cell": "FAIL", "message": f"no result within {LIMIT_SECONDS} s: {tail}"}
    elif text:
        result = json.loads(text)
    elif os.WIFSIGNALED(status):
        result = {"cell": "FAIL", "message": f"crash, {signal.Signals(os.WTERMSIG(status)).name}: {tail}"}
    else:
        result = {"cell": "FAIL", "message": f"ended without a result ({status}): {tail}"}
    return {"library": kind, "feature": feature, **result, "seconds": round(time.monotonic() - start, 2)}


def read_all(pipe, deadline):
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("libraries", nargs="+", metavar="KIND=LIBRARY")
    parser.add_argument("--twin", action="append", required=True, metavar="KIND=LIBRARY")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--legacy", action="append", default=[], metavar="KIND=LIBRARY")
    parser.add_argument("--feature", action="append", choices=list(features.FEATURES))
    options = parser.parse_args()
    originals, twins = (dict(argument.split("=", 1) for argument in given) for given in (options.legacy, options.twin))
    for library in options.libraries:
        kind, _, path = library.partition("=")
        for feature in options.feature or features.FEATURES:
            print(json.dumps(run(kind, path, twins[kind], options.bootstrap, originals.get(kind), feature)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
