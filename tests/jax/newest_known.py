"""Tests libraries that only know revisions up to a limit, on this process's jaxlib. Each feature must work, or be
refused with an error that names the feature.

usage: newest_known.py KIND=LIBRARY,TWIN… --bootstrap LIBRARY [--every K]

The variable of tests/fixtures/newest_known.h sets the newest revision that a library knows. With `--every K`, one of K
libraries runs. Prints each cell that differs from the expected cell, and the counts.
"""

import argparse
import collections
import contextlib
import ctypes
import io
import os
import sys

# Device ordinals and sharding need two CPU devices. The variable must be set before jax is imported.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)

import features  # noqa: E402
from cells import _abi, _jax, verdict  # noqa: E402
from checks import forked  # noqa: E402

NEWEST = len(_abi.REVISIONS) - 1

#: Features that older revisions lack: the first revision that has the feature, and a text that the refusal contains.
NEEDS = {
    "async: completed later by another thread": (2, "no futures"),
    "thread pool": (1, "thread pool"),
    "thread pool size": (3, "thread pool"),
    "run id": (4, "run id"),
    "device ordinal": (5, "device ordinal"),
    "custom options": (10, "custom options"),
}
STATE = ("state", "an error in instantiate", "the same state type in two libraries")


def refusal(feature, world):
    """Returns a text that the refusal of a feature must contain, or None if the feature must work."""
    newest = world.newest
    if newest == 0:
        return "version"
    since, word = NEEDS.get(feature, (0, None))
    if world.seen < since:
        return word
    # From r8 on, runtimes support all layouts of types and state. Earlier runtimes misread older layouts.
    if feature in STATE and newest < 8 and _abi.minor_version(newest) < _abi.minor_version(_jax.REVISION):
        return "user types"
    return None


def child(world, rows):
    """Runs features and returns their cells."""
    for library in (world.library, world.twin):
        newest = ctypes.c_int.in_dll(library.image, "XLA_FFI_NEWEST_KNOWN")
        newest.value = NEWEST if world.newest is None else world.newest
    cells = {}
    for row in rows:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                features.FEATURES[row](world)
            cells[row] = ("ok", "")
        except BaseException as error:  # An exception of any type determines the cell.
            cells[row] = verdict(error)
    return cells


def run(world):
    """Returns the cells of one library. A single process runs all features except for the feature that counts objects.
    If the process crashes, each feature runs in a separate process."""
    # A library of r0 is refused at registration, so the cell is the same for every feature.
    rows = ["stateless"] if world.newest == 0 else [row for row in features.FEATURES if row != STATE[-1]]
    cells, _ = forked(lambda: child(world, rows))
    alone = [] if world.newest == 0 else [STATE[-1]]
    if cells is None:
        alone, cells = rows + alone, {}
    for row in alone:
        got, end = forked(lambda: child(world, [row]))  # noqa: B023 (called at once)
        cells[row] = got[row] if got else ("FAIL", end)
    return cells


def judge(world, row, whole, got):
    """Returns whether a cell is as expected, and the category in which it is counted."""
    (wanted, _), (cell, message) = whole, got
    word = refusal(row, world)
    if wanted != "ok" or word is None:
        return cell == wanted != "FAIL", "works" if wanted == "ok" else wanted
    named = word.lower() in message.lower() and (world.newest == 0 or not message.startswith("crash"))
    return cell != "ok" and named, "refused by name"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("libraries", nargs="+", metavar="KIND=LIBRARY,TWIN")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    counts, turn = collections.Counter(), 0
    for argument in options.libraries:
        kind, _, paths = argument.partition("=")
        whole = None
        for newest in range(min(_jax.REVISION, NEWEST)):
            turn += 1
            if turn % options.every:
                continue
            world = features.World(kind, *paths.split(","), options.bootstrap)
            whole = whole or run(world)
            world.newest = newest
            for row, got in run(world).items():
                good, count = judge(world, row, whole[row], got)
                counts[count if good else "FAIL"] += 1
                if not good:
                    wanted = (whole[row][0], refusal(row, world))
                    print(f"FAIL {kind}, knows r{newest}, {row}: {got[0]}, wanted {wanted}: {got[1][:600]}", flush=True)
    total = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"jaxlib {_jax.JAXLIB} (r{_jax.REVISION}): {total}", flush=True)
    # jaxlibs of r0 run no library that knows an older revision.
    return 1 if counts["FAIL"] or (not counts and _jax.REVISION > 0) else 0


if __name__ == "__main__":
    sys.exit(main())
