"""Tests that exported models keep their handlers: `xla_ffi.export`, `load_exported` and `needs`.

usage: exports.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py)
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import python_signatures
import numpy as np
from checks import check, finish, raises, skip

# Packages that jax.export needs in addition to jax: flatbuffers, and absl in earlier versions.
if os.environ.get("XLA_FFI_EXPORT_PACKAGES"):
    sys.path.append(os.environ["XLA_FFI_EXPORT_PACKAGES"])
try:
    import flatbuffers  # noqa: F401
    from jax import export as jax_export
except ImportError:
    jax_export = None

import xla_ffi
import xla_ffi.__main__
from xla_ffi import _primitive

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


def wanted():
    if jax_export is None:
        skip("no XLA_FFI_EXPORT_PACKAGES: flatbuffers and absl are not at hand")


def command(*arguments):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = xla_ffi.__main__.main(["needs", *arguments])
    return status, out.getvalue(), errors.getvalue()


def lists(path, folder):
    """Lists of targets are equal for every form of a model, and contain the libraries that have the targets.
    """
    wanted()
    lib = xla_ffi.load(path)
    function = lambda x: lib.rms_norm(lib.rms_norm(jnp.sin(x), eps=1e-3), eps=1e-2)
    model = xla_ffi.export(function, X)
    (need,) = model.needs
    if (need.target, need.api_version, need.attributes, need.of_jax) != ("rms_norm.rms_norm", 4, (("eps", "f32"),), False):
        raise AssertionError(need)
    lowered = jax.jit(function).lower(X)
    forms = {
        "model.bin": model.serialize(), "jax.bin": bytes(model.exported.serialize()),
        "portable.bin": bytes(model.exported.mlir_module_serialized), "text.mlir": lowered.as_text().encode(),
    }  # fmt: skip
    for name, data in forms.items():
        file = os.path.join(folder, name)
        with open(file, "wb") as out:
            out.write(data)
        if xla_ffi.needs(data) != [need] or xla_ffi.needs(file) != [need]:
            raise AssertionError(f"{name}: {xla_ffi.needs(data)}")
        status, text, _ = command(file, "--lib", path)
        if status != 0 or text != f"rms_norm.rms_norm  API version 4  {{eps: f32}}  in {path}\n":
            raise AssertionError((status, text))
        other = shutil.copy(path, os.path.join(folder, "other.so"))
        with open(other, "r+b") as out:
            data = out.read().replace(b'"rms_norm"', b'"rms_nrom"')
            out.seek(0)
            out.write(data)
        status, text, _ = command(file, "--lib", other)
        if status != 1 or "in none of the libraries" not in text:
            raise AssertionError((status, text))
    if command(os.path.join(folder, "text.mlir"))[0] != 0:
        raise AssertionError("asked without libraries")
    other = xla_ffi.load(path, prefix="other")
    prefixed = _written(os.path.join(folder, "prefixed.bin"), xla_ffi.export(lambda x: other.rms_norm(x), X).serialize())
    status, text, _ = command(prefixed, "--lib", path)
    if status != 0 or not text.startswith("other.rms_norm  "):
        raise AssertionError((status, text))
    nothing = jax.jit(jnp.sin).lower(X).as_text()
    if xla_ffi.needs(nothing.encode()) != [] or "rms" in repr(xla_ffi.export(jnp.sin, X)):
        raise AssertionError("a model without handlers")


SERVE = """
import os, sys
sys.path.append(os.environ.get("XLA_FFI_EXPORT_PACKAGES", "/"))
import numpy as np, xla_ffi
model = xla_ffi.load_exported(sys.argv[1], libraries=sys.argv[2:])
print(np.asarray(model.call(np.arange(6, dtype=np.float32).reshape(2, 3))).tolist())
with open(os.path.join(os.path.dirname(sys.argv[1]), "again.bin"), "wb") as again:
    again.write(model.serialize())
"""


def serve(*arguments):
    done = subprocess.run([sys.executable, "-c", SERVE, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def carried(path, folder):
    """A different process finds and loads the libraries before the first call of the model."""
    wanted()
    moving = shutil.copy(path, os.path.join(folder, "libmoving.so"))
    lib = xla_ffi.load(moving, prefix="moved")
    want = np.asarray(jax.jit(lambda x: lib.rms_norm(x, eps=1e-3))(X)).tolist()
    model = xla_ffi.export(jax.jit(lambda x: lib.rms_norm(x, eps=1e-3)), jax.ShapeDtypeStruct(X.shape, X.dtype))
    if np.asarray(model.call(X)).tolist() != want or np.asarray(jax.jit(model.call)(X)).tolist() != want:
        raise AssertionError("in this process")
    file = os.path.join(folder, "carried.bin")
    with open(file, "wb") as out:
        out.write(model.serialize())
    status, text = serve(file)
    if status != 0 or text.strip() != str(want):
        raise AssertionError(text)
    elsewhere = os.path.join(folder, "elsewhere")
    os.mkdir(elsewhere)
    now = shutil.move(moving, os.path.join(elsewhere, "libmoving.so"))
    status, text = serve(file)
    if status == 0 or "LibraryError" not in text or "`moved.rms_norm`" not in text or "libmoving.so" not in text:
        raise AssertionError(text)
    status, text = serve(file, now)
    if status != 0 or text.strip() != str(want):
        raise AssertionError(text)
    # Serializing a loaded model again records the libraries' new locations.
    status, text = serve(os.path.join(folder, "again.bin"))
    if status != 0 or text.strip() != str(want):
        raise AssertionError(text)
    plain = os.path.join(folder, "plain.bin")
    with open(plain, "wb") as out:
        out.write(bytes(model.exported.serialize()))
    status, text = serve(plain, now)
    if status == 0 or "LibraryError" not in text or "libraries=" not in text:
        raise AssertionError(text)


SOURCE = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error ScaleImpl(ffi::Buffer<ffi::F32> x, ffi::Result<ffi::Buffer<ffi::F32>> y, float by) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * by;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, ScaleImpl, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<float>("by"));
static ffi::Error HalfImpl(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) { return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(Half, HalfImpl, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());
static ffi::Error ShorterImpl(ffi::Buffer<ffi::F32>, ffi::Result<ffi::Buffer<ffi::F32>> y) {
  for (size_t i = 0; i < y->element_count(); ++i) y->typed_data()[i] = i;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Shorter, ShorterImpl, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""

SCALE = "(x: f32[... n], *, by: f32 = 3.0) -> y: f32[... n]"


def described_by_callers(folder):
    """Descriptions that callers pass to `load` are stored with the model: signatures, stages, batching."""
    wanted()
    place = python_signatures.compiled_text(SOURCE, folder, "exported")
    for prefix, handlers in {
        "words": {"Scale": SCALE},
        "more": {"Scale": xla_ffi.Signature(SCALE, stages={"execute": "Scale"}, platforms=("cpu",), batch="sequential", gradient={"linear": True})},
    }.items():
        lib = xla_ffi.load(place, prefix=prefix, handlers=handlers)
        data = xla_ffi.export(lib.Scale, X).serialize()
        if xla_ffi.load_exported(data, [lib]).call(X).tolist() != (3 * X).tolist() or xla_ffi.load_exported(data).call(X).tolist() != (3 * X).tolist():
            raise AssertionError("in this process")
        file = os.path.join(folder, f"{prefix}.bin")
        with open(file, "wb") as out:
            out.write(data)
        elsewhere = os.path.join(folder, prefix)
        os.mkdir(elsewhere)
        for libraries in ([], [shutil.copy(place, elsewhere)]):
            status, text = serve(file, *libraries)
            if status != 0 or text.strip() != str((3 * X).tolist()):
                raise AssertionError(text)


def symbolic(folder):
    """Symbolic sizes get their values when the model is called."""
    wanted()
    lib = xla_ffi.load(
        python_signatures.compiled_text(SOURCE, folder, "symbolic"),
        handlers={"Scale": SCALE, "Shorter": "(x: f32[n]) -> y: f32[n-2]", "Half": "(x: f32[n]) -> y: f32[n/2]"},
    )
    b, n = jax_export.symbolic_shape("b, n")
    rows, row = jax.ShapeDtypeStruct((b, n), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.float32)
    batched = lambda method: jax.vmap(lambda x: lib.Scale(x, vmap_method=method))
    for function in (lib.Scale, *map(batched, ("sequential", "broadcast_all", "expand_dims", "legacy_vectorized"))):
        found = xla_ffi.load_exported(xla_ffi.export(function, rows).serialize()).call(X)
        if found.tolist() != (3 * X).tolist():
            raise AssertionError(found)
    unrolled = batched("sequential_unrolled")
    raises(NotImplementedError, lambda: xla_ffi.export(unrolled, rows), "got b", "vmap_method='sequential'")
    if xla_ffi.export(unrolled, jax.ShapeDtypeStruct((2, n), jnp.float32)).call(X).tolist() != (3 * X).tolist():
        raise AssertionError("only the elements have a symbolic size")
    raises(TypeError, lambda: xla_ffi.export(lib.Shorter, row), "Shorter", "n-2 may be negative", "constraints=['n >= 2']")
    raises(TypeError, lambda: xla_ffi.export(lib.Half, row), "Half", "n/2 may leave a remainder", "constraints=['mod(n, 2) == 0']")
    (even,) = jax_export.symbolic_shape("n", constraints=["mod(n, 2) == 0"])
    if xla_ffi.export(lib.Half, jax.ShapeDtypeStruct((even,), jnp.float32)).call(jnp.zeros(4)).shape != (2,):
        raise AssertionError("constrained")


def vouched():
    """A target that no loaded library has is refused, as in jax."""
    wanted()
    kind = jax.ShapeDtypeStruct(X.shape, X.dtype)
    stranger = lambda x: _primitive.call("a_stranger", [kind], [x], {})[0]
    raises(ValueError, lambda: xla_ffi.export(stranger, X), "a_stranger")


def damaged(path, folder):
    """Damaged files and files of other programs raise an error that names the file."""
    wanted()
    lib = xla_ffi.load(path)
    data = xla_ffi.export(lib.rms_norm, X).serialize()
    file = os.path.join(folder, "damaged.bin")
    for text in (b"", b"\x00\xff" * 40, b"module { nonsense }", data[:15], data[:-1], data + b"x", data.replace(b"rms_norm", b"rms_nrom")):
        _written(file, text)
        for read in (xla_ffi.needs, xla_ffi.load_exported):
            raises(xla_ffi.LibraryError, lambda read=read: read(file), file)
        status, _, errors = command(file)
        if status != 1 or not errors.startswith("error: "):
            raise AssertionError(errors)
    raises(xla_ffi.LibraryError, lambda: xla_ffi.load_exported(data, libraries="libf.so"), "libraries=")
    raises(xla_ffi.LibraryError, lambda: xla_ffi.needs(os.path.join(folder, "none")), "No such file")


def _written(file, data):
    with open(file, "wb") as out:
        out.write(data)
    return file


def main():
    path = dict(argument.split("=", 1) for argument in sys.argv[1:])["Rust:rms_norm"]
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        check("what a model calls", lambda: lists(path, folder))
        check("a model in another process", lambda: carried(path, folder))
        check("a model of libraries that their caller describes", lambda: described_by_callers(folder))
        check("a model with symbolic sizes", lambda: symbolic(folder))
        check("who is vouched for", vouched)
        check("damaged and foreign files", lambda: damaged(path, folder))
    finish()


if __name__ == "__main__":
    main()
