"""Manifests of other days: today's loader and command line, with yesterday's, today's and
tomorrow's libraries.

usage: skew.py LANGUAGE:EXAMPLE=LIBRARY… (the libraries of examples.py)

A library of another day is one of today whose manifest is written over in its file.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from built import built
from checks import check, finish, raises
from xla_ffi import _manifest

MAGIC = b"XLAFFIMF"
CLI = os.environ.get("XLA_FFI_CLI") or os.fspath(pathlib.Path(__file__).resolve().parents[2] / "target/debug/xla-ffi")
X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
#: What format 2 brought.
SECOND = ("traits", "gradient", "batch", "described", "doc", "layout")


def of_another_day(path, target, version, change=None):
    """The library with its manifest in another format; ``change`` may give another payload, no longer than its own."""
    data = bytearray(pathlib.Path(path).read_bytes())
    at, count = data.find(MAGIC), 0
    while at >= 0:
        found, length = struct.unpack_from("<II", data, at + 8)
        # The magic itself stands in the texts of whoever reads it.
        if found in (1, 2) and data[at + 16 : at + 17] == b"{":
            struct.pack_into("<I", data, at + 8, version)
            if change:
                root = change(json.loads(data[at + 16 : at + 16 + length]))
                text = json.dumps(root, separators=(",", ":"), ensure_ascii=False).encode().ljust(length)
                if len(text) > length:
                    raise AssertionError(f"{len(text)} bytes do not fit in {length}")
                data[at + 16 : at + 16 + length] = text
            count += 1
        at = data.find(MAGIC, at + 1)
    if not count:
        raise AssertionError(f"{path} has no manifest")
    pathlib.Path(target).write_bytes(data)
    return os.fspath(target)


def without(value, keys):
    """Without these keys, at every depth."""
    if isinstance(value, dict):
        return {key: without(item, keys) for key, item in value.items() if key not in keys}
    return [without(item, keys) for item in value] if isinstance(value, list) else value


def command(*arguments):
    done = subprocess.run([CLI, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run(path):
    return command("run", path, "--handler", "rms_norm", "--arg", "f32[2,3]=0,1,2,3,4,5", "--attrs", "{eps = 1.0e-3 : f32}")


def old_library(language, path, folder):
    """Loaded, called and shown as ever; it has no gradient to declare."""
    yesterday = of_another_day(path, folder / f"lib{language.lower()}_old.so", 1, lambda root: without(root, SECOND))
    old, new = (xla_ffi.load(each, prefix=f"{language}_{name}").rms_norm for each, name in ((yesterday, "old"), (path, "new")))
    if np.asarray(jax.jit(old)(X)).tobytes() != np.asarray(new(X)).tobytes():
        raise AssertionError("other results")
    raises(Exception, lambda: jax.grad(lambda x: old(x).sum())(X), "declared no gradient")
    for code, text in (run(yesterday), command("inspect", yesterday), command("stubs", yesterday, "--python", sys.executable)):
        if code != 0:
            raise AssertionError(text)
    if run(yesterday) != run(path):
        raise AssertionError(run(yesterday))


def tomorrows_format(path, folder):
    """A format that is not known: everything that reads it refuses, naming the file, the format and what helps."""
    tomorrow = of_another_day(path, folder / "libtomorrow.so", 3)
    raises(xla_ffi.ManifestError, lambda: xla_ffi.load(tomorrow), tomorrow, "manifest format 3", "reads the formats 1 and 2", "update it")
    raises(xla_ffi.ManifestError, lambda: _manifest.read(tomorrow), "manifest format 3")
    for code, text in (run(tomorrow), command("inspect", tomorrow), command("stubs", tomorrow, "--python", sys.executable), command("doctor", tomorrow)):
        if code == 0 or "manifest format 3 is not known" not in text and "manifest format 3;" not in text or "update it" not in text:
            raise AssertionError((code, text))


def tomorrows_keys(path, folder):
    """Keys that nobody knows yet are left alone, at every depth: what may not be missed comes with a new format."""

    def more(value):
        if isinstance(value, dict):
            return {**{key: more(item) for key, item in value.items()}, "z": [1]}
        return [more(item) for item in value] if isinstance(value, list) else value

    def change(root):
        root = without(root, ("doc", "sdk"))
        stages = [handler.pop("stages") for handler in root["handlers"]]
        root = more(root)
        for handler, own in zip(root["handlers"], stages):
            handler["stages"] = own
        return {**root, "y": {"é": [None]}}

    tomorrow = of_another_day(path, folder / "libkeys.so", 2, change)
    lib = xla_ffi.load(tomorrow, prefix="keys")
    if np.asarray(lib.rms_norm(X)).tobytes() != np.asarray(xla_ffi.load(path).rms_norm(X)).tobytes():
        raise AssertionError("other results")
    if run(tomorrow) != run(path) or run(path)[0] != 0:
        raise AssertionError(run(tomorrow))
    code, text = command("inspect", tomorrow)
    if code != 0:
        raise AssertionError(text)


def main():
    paths = {library.language: library.path for library in built(sys.argv[1:]) if library.example == "02_rms_norm"}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(os.path.realpath(folder))
        for language in ("Rust", "C"):
            check(f"yesterday's library, {language}", lambda language=language: old_library(language, paths[language], folder))
        check("tomorrow's format", lambda: tomorrows_format(paths["Rust"], folder))
        check("tomorrow's keys", lambda: tomorrows_keys(paths["Rust"], folder))
    finish()


if __name__ == "__main__":
    main()
