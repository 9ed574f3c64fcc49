"""Whether libraries have what a model calls, as it calls it: `python -m xla_ffi needs --lib`.

usage: needs.py LANGUAGE:EXAMPLE=LIBRARY… (the libraries of examples.py)
"""

import os
import shutil
import sys
import tempfile

import jax
import jax.numpy as jnp
import given
import numpy as np
from checks import check, finish, raises
from exports import SCALE, SOURCE, X, command, jax_export, wanted

import xla_ffi

F32 = jnp.float32


def written(folder, name, data):
    file = os.path.join(folder, name)
    with open(file, "wb") as out:
        out.write(data.encode() if isinstance(data, str) else data)
    return file


def forms(model, folder):
    """A model in every form that it has."""
    exported = model.exported
    data = {"ours": model.serialize(), "jax": bytes(exported.serialize()), "portable": bytes(exported.mlir_module_serialized), "text": exported.mlir_module()}
    return {form: written(folder, f"{form}.bin", each) for form, each in data.items()}


def told(status, text, *arguments):
    """The command's exit status and what it says behind the library's name."""
    found, out, errors = command(*arguments)
    if (found, out.partition(", but ")[2].rstrip("\n")) != (status, text):
        raise AssertionError((arguments, found, out, errors))


def has_arrays(weighted_sum):
    """Whether this jaxlib exports attributes that are arrays; the first ones do not."""
    try:
        xla_ffi.export(lambda x: weighted_sum(x, weights=[1.0]), X)
    except Exception as error:
        if "failed to legalize" not in str(error):
            raise
        return False
    return True


def symbolic(folder, libraries):
    """The sizes of results that jax gives a call in a symbolic program are no operands of the handler."""
    wanted()
    b, n, m = jax_export.symbolic_shape("b, n, m")
    of = lambda *shape: jax.ShapeDtypeStruct(shape, F32)
    rows = of(b, n)
    load = lambda name: xla_ffi.load(libraries[name])
    norm, product, sums, axpy, tiled = map(load, ("rms_norm", "matmul", "variadic", "aliasing", "tiled_add"))
    cases = {
        "rms_norm": (norm.rms_norm, rows),
        "matmul": (jax.grad(lambda x, y: product.matmul(x, y).sum(), (0, 1)), of(b, n, m), of(b, m, n)),
        "variadic": (lambda *x: sums.weighted_sum(*x, weights=[1.0, 2.0, 3.0]), of(n), of(n), of(n)),
        "aliasing": (lambda x, y: axpy.axpy(x, y, a=2.0), of(n), of(n)),
        "tiled_add": (tiled.tiled_add, of(m), of(n)),
    }
    if not has_arrays(sums.weighted_sum):
        del cases["variadic"]
    for name, (function, *args) in cases.items():
        for file in forms(xla_ffi.export(function, *args), folder).values():
            told(0, "", file, "--lib", libraries[name])


def described(folder):
    """What a caller said of a library goes with the model, to the command, too."""
    wanted()
    place = given.compiled_text(SOURCE, folder, "spoken")
    lib = xla_ffi.load(place, prefix="spoken", handlers={"Scale": SCALE})
    model = xla_ffi.export(lambda x: lib.Scale(x, by=2.0), X)
    ours = forms(model, folder)["ours"]
    other = shutil.copy(place, os.path.join(folder, "libother.so"))
    for path in (place, other):
        told(0, "", ours, "--lib", path)
    status, _, errors = command(forms(model, folder)["jax"], "--lib", place)
    if status != 1 or "has no manifest" not in errors:
        raise AssertionError(errors)
    with open(ours, "rb") as file:
        data = file.read()
    head = data[: data.index(b"ML\xefR")]
    if SCALE.encode() not in head:
        raise AssertionError(head)
    # One file under two prefixes, of which each knows a handler.
    half = xla_ffi.load(place, prefix="half", handlers={"Half": "(x: f32[... n]) -> y: f32[... n]"})
    told(0, "", written(folder, "half.bin", xla_ffi.export(lambda x: lib.Scale(half.Half(x)), X).serialize()), "--lib", place)
    # As if the library had been described otherwise.
    doubled = data.replace(b"by: f32", b"by: f64")
    told(1, "its attribute by is of type f64, not f32", written(folder, "doubled.bin", doubled), "--lib", place)


def derivatives(folder, path):
    """The derivatives that a model holds are part of what it needs."""
    wanted()
    copy = shutil.copy(path, os.path.join(folder, "libbackward.so"))
    lib, other = xla_ffi.load(path), xla_ffi.load(copy, prefix="backward")
    function = lib.rms_norm.with_vjp(lambda x: (lib.rms_norm(x), x), lambda x, g: (other.rms_norm(x),))
    model = xla_ffi.export(function, X)
    for data in (model.serialize(vjp_order=1), bytes(model.exported.serialize(vjp_order=1))):
        file = written(folder, "both.bin", data)
        status, out, _ = command(file)
        if status != 0 or [line.split("  ")[0] for line in out.splitlines()] != ["rms_norm.rms_norm", "backward.rms_norm"]:
            raise AssertionError(out)
    ours = written(folder, "ours.bin", model.serialize(vjp_order=1))
    told(0, "", ours, "--lib", path, "--lib", copy)
    status, out, _ = command(file, "--lib", path)
    if status != 1 or "backward.rms_norm  API version 4  {}  in none of the libraries\n" not in out:
        raise AssertionError(out)


def platforms(folder, path):
    """A library for other platforms than the model's is told, where the model says for which it is."""
    wanted()
    lib = xla_ffi.load(path)
    all_forms = forms(xla_ffi.export(lib.rms_norm, X), folder)
    with open(path, "rb") as file:
        data = file.read()
    os.makedirs(os.path.join(folder, "tpu"))
    other = written(os.path.join(folder, "tpu"), os.path.basename(path), data.replace(b'"platforms":["cpu"]', b'"platforms":["tpu"]'))
    for form, file in all_forms.items():
        says = form in ("ours", "jax")
        told(int(says), "it is for tpu, and the model for cpu" if says else "", file, "--lib", other)
        told(0, "", file, "--lib", path, "--lib", other)
    place = given.compiled_text(SOURCE, folder, "chosen")
    here, there = (
        xla_ffi.load(place, prefix=prefix, handlers={"Scale": xla_ffi.Signature(SCALE, platforms=(platform,))})
        for prefix, platform in (("here", "cpu"), ("there", "cuda"))
    )
    chosen = lambda x: jax.lax.platform_dependent(x, cpu=lambda x: here.Scale(x), default=lambda x: there.Scale(x))
    told(0, "", written(folder, "chosen.bin", xla_ffi.export(chosen, X, platforms=("cpu", "cuda")).serialize()), "--lib", place)


def linked(folder, path):
    """A library is known by the name that is given, and by that of the file behind it."""
    wanted()
    real = shutil.copy(path, os.path.join(folder, "librms.so.1.2"))
    link = os.path.join(folder, "librms.so")
    os.symlink(real, link)
    lib = xla_ffi.load(link, prefix="linked")
    file = written(folder, "linked.bin", xla_ffi.export(lib.rms_norm, X).serialize())
    with open(real, "ab") as out:
        out.write(b"another build")
    for name in (link, real):
        told(0, "", file, "--lib", name)


def messages(folder, path):
    """What is no model is told as that."""
    wanted()
    for read in (xla_ffi.needs, xla_ffi.load_exported):
        raises(xla_ffi.LibraryError, lambda: read(b"XLAFFIMODEL\x00\x01\n"), "the model is cut off")
    lib = xla_ffi.load(path)
    data = bytes(xla_ffi.export(lib.rms_norm, X, platforms="cpu").exported.serialize())
    if xla_ffi.load_exported(data, libraries=lib).call(X).tolist() != np.asarray(lib.rms_norm(X)).tolist():
        raise AssertionError("one library")


def main():
    path = dict(argument.split("=", 1) for argument in sys.argv[1:])["Rust:02_rms_norm"]
    names = ("rms_norm", "matmul", "variadic", "aliasing", "tiled_add")
    libraries = {name: os.path.join(os.path.dirname(path), f"lib{name}.so") for name in names}
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        check("calls with symbolic sizes", lambda: symbolic(folder, libraries))
        check("libraries that their caller describes", lambda: described(folder))
        check("derivatives in a model", lambda: derivatives(folder, path))
        check("platforms of a model", lambda: platforms(folder, path))
        check("names of a library", lambda: linked(folder, path))
        check("what is no model", lambda: messages(folder, path))
    finish()


if __name__ == "__main__":
    main()
