"""Tests exported models whose libraries have moved or were replaced since the export.

usage: models.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py)
"""

import os
import shutil
import subprocess
import sys
import tempfile
import warnings

import jax
import jax.numpy as jnp
import python_signatures
from checks import check, finish
from exports import SCALE, SOURCE, X, serve, wanted

import xla_ffi


def build(folder, name, by):
    """Compiles a library in a new folder, with a handler that also multiplies by this number."""
    os.makedirs(os.path.join(folder, name))
    text = SOURCE.replace("x.typed_data()[i] * by", f"x.typed_data()[i] * by * {by}")
    return python_signatures.compiled_text(text, os.path.join(folder, name), "k")


def copied(path, *folders):
    os.makedirs(os.path.join(*folders), exist_ok=True)
    return shutil.copy(path, os.path.join(*folders, os.path.basename(path)))


def process(code, *arguments):
    code = "import os, sys\nsys.path.append(os.environ.get('XLA_FFI_EXPORT_PACKAGES', '/'))\nimport numpy as np, jax, xla_ffi\n" + code
    done = subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", code, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip(), done.stderr


def ran(want, code, *arguments):
    status, out, errors = process(code, *arguments)
    if (status, out) != (0, want):
        raise AssertionError((arguments, out, errors))


CALL = """
model = xla_ffi.load_exported(sys.argv[1], libraries=sys.argv[2:])
print([float(y[0]) for y in model.call(np.ones(2, np.float32))])
open(sys.argv[1] + ".again", "wb").write(model.serialize())
"""


def two_builds(folder):
    """Two builds with the same name are different libraries, independently of the order of calls and arguments."""
    wanted()
    first, second = (build(folder, name, by) for name, by in (("first", 1), ("second", 10)))
    one, two = (xla_ffi.load(path, prefix=prefix, handlers={"Scale": SCALE}) for path, prefix in ((first, "one"), (second, "two")))
    moved = [copied(path, folder, "moved", os.path.basename(os.path.dirname(path))) for path in (first, second)]
    renamed = shutil.copy(first, os.path.join(folder, "librenamed.so"))
    file = os.path.join(folder, "two.bin")
    for function, want in ((lambda x: (one.Scale(x), two.Scale(x)), "[3.0, 30.0]"), (lambda x: (two.Scale(x), one.Scale(x)), "[30.0, 3.0]")):
        with open(file, "wb") as out:
            out.write(xla_ffi.export(function, X[0, :2]).serialize())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            xla_ffi.load_exported(file)
            xla_ffi.load_exported(file, moved)
        for libraries in ([], moved):
            ran(want, CALL, file, *libraries)
    for libraries in (moved[:1], moved[1:], moved[::-1], [renamed]):
        ran(want, CALL, file, *libraries)
    third = build(folder, "third", 100)
    status, _, errors = process(CALL, file, moved[1], third)
    if status == 0 or "RuntimeWarning" not in errors or third not in errors:
        raise AssertionError(errors)
    # After the libraries have moved, a model that is serialized again contains their new paths.
    shutil.rmtree(os.path.dirname(first))
    shutil.rmtree(os.path.dirname(second))
    ran(want, CALL, file, *moved)
    ran(want, CALL, f"{file}.again")


GRAD = """
model = xla_ffi.load_exported(sys.argv[1], libraries=sys.argv[2:])
print(jax.grad(lambda x: (model.call(x) ** 2).sum())(np.ones((2, 3), np.float32)).tolist())
open(sys.argv[1], "wb").write(model.serialize())
open(sys.argv[1] + ".0", "wb").write(model.serialize(vjp_order=0))
"""


def derivatives(path, folder):
    """A model includes its derivatives and their handlers, and keeps them when it is serialized again."""
    wanted()
    forward, backward = (shutil.copy(path, os.path.join(folder, f"lib{name}.so")) for name in ("forward", "backward"))
    with open(backward, "ab") as file:
        file.write(b"another file")
    one, two = xla_ffi.load(forward, prefix="forward"), xla_ffi.load(backward, prefix="backward")
    function = one.rms_norm.with_vjp(lambda x: (one.rms_norm(x), x), lambda x, g: (two.rms_norm(x * g),))
    model = xla_ffi.export(function, X)
    targets = lambda model: [need.target for need in xla_ffi.needs(model)]
    both = ["forward.rms_norm", "backward.rms_norm"]
    file = os.path.join(folder, "derivatives.bin")
    with open(file, "wb") as out:
        out.write(model.serialize(vjp_order=1))
    if targets(model.serialize()) != both[:1] or targets(file) != both or targets(model.exported) != both[:1]:
        raise AssertionError((targets(model.serialize()), targets(file)))
    if targets(xla_ffi.load_exported(file)) != both or xla_ffi.load_exported(file).exported.vjp() is None:
        raise AssertionError("loaded")
    want = str(jax.grad(lambda x: (function(x) ** 2).sum())(jnp.ones((2, 3))).tolist())
    ran(want, GRAD, file)
    ran(want, GRAD, file)  # the model that was serialized again
    if targets(f"{file}.0") != both[:1]:
        raise AssertionError(targets(f"{file}.0"))
    os.remove(backward)
    status, _, errors = process(GRAD, file)
    if status == 0 or "`backward.rms_norm`" not in errors or backward not in errors:
        raise AssertionError(errors)


def platforms(path, folder):
    """A handler that does not support the model's platform is reported before anything is called."""
    wanted()
    place = shutil.copy(path, os.path.join(folder, "libplaced.so"))
    lib = xla_ffi.load(place, prefix="placed")
    file = os.path.join(folder, "placed.bin")
    with open(file, "wb") as out:
        out.write(xla_ffi.export(lib.rms_norm, X).serialize())
    with open(place, "rb") as library:
        elsewhere = library.read().replace(b'"platforms":["cpu"]', b'"platforms":["tpu"]')
    os.makedirs(os.path.join(folder, "tpu"))
    with open(os.path.join(folder, "tpu", "libplaced.so"), "wb") as out:
        out.write(elsewhere)
    status, text = serve(file, os.path.join(folder, "tpu", "libplaced.so"))
    if status == 0 or "`placed.rms_norm` on cpu" not in text:
        raise AssertionError(text)
    # If jax selects by platform, each handler only needs to support its own platform.
    source = python_signatures.compiled_text(SOURCE, folder, "chosen")
    here = xla_ffi.load(source, prefix="here", handlers={"Scale": SCALE})
    there = xla_ffi.load(source, prefix="there", handlers={"Scale": xla_ffi.Signature(SCALE, platforms=("cuda",))})
    chosen = lambda x: jax.lax.platform_dependent(x, cpu=lambda x: here.Scale(x), cuda=lambda x: there.Scale(x))
    model = xla_ffi.export(chosen, X, platforms=("cpu", "cuda"))
    for libraries in ((), [here, there]):
        loaded = xla_ffi.load_exported(model.serialize(), libraries)
        if loaded.call(X).tolist() != (3 * X).tolist() or {need.target for need in loaded.needs} != {"here.Scale", "there.Scale"}:
            raise AssertionError(loaded)
    one = xla_ffi.export(here.Scale, X, platforms="cpu")
    if one.exported.platforms != ("cpu",):
        raise AssertionError(one.exported.platforms)


def within(path, folder):
    """A library may be loaded by the exported function itself."""
    wanted()
    place = shutil.copy(path, os.path.join(folder, "libwithin.so"))
    model = xla_ffi.export(lambda x: xla_ffi.load(place, prefix="within").rms_norm(x), X)
    if [need.target for need in model.needs] != ["within.rms_norm"]:
        raise AssertionError(model)


def main():
    path = dict(argument.split("=", 1) for argument in sys.argv[1:])["Rust:rms_norm"]
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        check("two builds of one name", lambda: two_builds(folder))
        check("derivatives of a model", lambda: derivatives(path, folder))
        check("platforms of a model", lambda: platforms(path, folder))
        check("a library that the function loads", lambda: within(path, folder))
    finish()


if __name__ == "__main__":
    main()
