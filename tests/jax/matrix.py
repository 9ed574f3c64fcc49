"""Runs features of one library on this process's jaxlib, each in a child process.

usage: matrix.py KIND=LIBRARY… --twin KIND=LIBRARY… --bootstrap LIBRARY [--feature NAME]…

Prints one line of JSON per cell: {"library", "feature", "cell", "message", "seconds"}. jax is imported once. Each child
is forked before any backend exists, so a crash, a hang or a damaged registry only affects one cell.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import time

# Device ordinals and sharding need two CPU devices. The variable must be set before jax is imported.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)

import features  # noqa: E402
import legacy  # noqa: E402, F401 (its features enter the table)
from cells import verdict  # noqa: E402
from checks import forked  # noqa: E402


def child(kind, path, twin, bootstrap, original, feature):
    """Runs one feature and returns its cell."""
    world = features.World(kind, path, twin, bootstrap, original)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            features.FEATURES[feature](world)
        cell, message = "ok", ""
    except BaseException as error:  # An exception of any type determines the cell.
        cell, message = verdict(error)
    return {"cell": cell, "message": message[:2000]}


def run(kind, path, twin, bootstrap, original, feature):
    """Runs a feature in a child process, and returns the cell."""
    start = time.monotonic()
    result, end = forked(lambda: child(kind, path, twin, bootstrap, original, feature))
    if result is None:
        result = {"cell": "FAIL", "message": end}
    return {"library": kind, "feature": feature, **result, "seconds": round(time.monotonic() - start, 2)}


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
