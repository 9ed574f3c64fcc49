"""Tests the loader for TensorFlow, `xla_ffi.tensorflow`.

usage: tf_loader.py FOLDER LANGUAGE:EXAMPLE=LIBRARY… (FOLDER has the Rust examples; the other arguments are as in
`examples.py`)
"""

import copy
import ctypes
import functools
import importlib.util
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf
import xla_ffi
import xla_ffi.tensorflow
from checks import check, finish, raises, skip
from xla_ffi import _mlir, _tf_host

FOLDER = pathlib.Path(sys.argv[1])
EXAMPLES = dict(argument.split("=", 1) for argument in sys.argv[2:])
X = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
LIKE_X = tf.TensorSpec([2, 3], tf.float32)


def load(name):
    return xla_ffi.tensorflow.load(FOLDER / f"lib{name}.so")


def compiled(function):
    """Returns the function in the form that XLA compiles."""
    return tf.function(function, jit_compile=True, autograph=False)


def made(handler, **options):
    """Returns a compiled call with these keywords, as a function of the operands."""
    return compiled(lambda *args: handler(*args, **options))


def equal(got, wanted):
    """Fails unless two arrays are equal in values, type and shape."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or not np.array_equal(got, wanted):
        raise AssertionError(f"expected {wanted.dtype}{list(wanted.shape)} {wanted}, got {got.dtype}{list(got.shape)} {got}")


def near(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-6)


def normed(x, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))


def results():
    norm = load("rms_norm").rms_norm
    near(compiled(norm)(X), normed(X.numpy()))
    near(compiled(lambda x: norm(x, eps=0.5) + 1)(X), normed(X.numpy(), 0.5) + 1)
    near(compiled(lambda x: tf.nn.relu(norm(norm(x) - 1)))(X), np.maximum(normed(normed(X.numpy()) - 1), 0))
    # A Python list is converted to the only element type that the handler accepts.
    near(compiled(lambda: norm([[3.0, 4.0]]))(), normed(np.array([[3, 4]], np.float32)))
    near(compiled(norm)(tf.Variable(X)), normed(X.numpy()))
    if load("rms_norm") is not load("rms_norm") or norm.refused is not None:
        raise AssertionError("loaded twice")


OTHERS = """
import sys
import tensorflow as tf
import xla_ffi.tensorflow
run = lambda function, *args: tf.function(function, jit_compile=True, autograph=False)(*args).numpy().tolist()
c, cpp = (xla_ffi.tensorflow.load(path) for path in sys.argv[1:])
print(run(c.tiled_add, tf.constant([1.0, 2.0]), tf.constant([10.0, 20.0, 30.0])), run(lambda x: cpp.rms_norm(x, eps=0.0), tf.constant([[3.0, 4.0]])))
"""


def languages():
    """Libraries in C and C++ are registered by the symbols in their manifests."""
    libraries = EXAMPLES["C:tiled_add"], EXAMPLES["C++:rms_norm"]
    if not all(libraries):
        skip("no C or C++ compiler")
    # The Rust libraries have already registered these names in this process, so the C and C++ libraries use a child
    # process.
    done = subprocess.run([sys.executable, "-c", OTHERS, *libraries], capture_output=True, text=True, check=False)
    if done.stdout.strip() != f"[11.0, 22.0, 31.0] {normed(np.array([[3, 4]], np.float32), 0).tolist()}":
        raise AssertionError(f"{done.stdout} {done.stderr[-2000:]}")


def registering_themselves():
    """Returns the libraries that register themselves when they are loaded, by handler name."""
    found = {"doubled_on_load": FOLDER / "libon_load.so"}
    for language, name, file in (("C", "doubled_on_load_c", "libon_load.so"), ("C++", "doubled_on_load_cpp", "libon_load_cpp.so")):
        library = EXAMPLES[f"{language}:rms_norm"]
        if library:
            found[name] = pathlib.Path(library).parent / file
    return found


def on_load():
    """A library that registers itself needs no further calls after loading."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    for name, path in registering_themselves().items():
        module = _mlir.call(name, [((2, 3), np.dtype(np.float32))], [((2, 3), np.dtype(np.float32))], {}, (["row"], ["row"]), [], False)
        run = lambda x, name=name, module=module: gen_xla_ops.xla_call_module(
            [x], version=9, module=module, Sout=[[2, 3]], Tout=[tf.float32], platforms=["CPU"], disabled_checks=[f"custom_call:{name}"]
        )[0]
        # Before the library is loaded, XLA's error names the missing handler.
        raises(tf.errors.OpError, lambda: compiled(run)(X), name)
        ctypes.CDLL(os.fspath(path))
        equal(compiled(run)(X), 2 * X.numpy())


def attributes():
    """Attributes are cast to the declared types without changing a bit."""
    lib = load("conformance")
    integers = {f"{sign}{bits}": (1 if sign == "u" else -1) * bits for sign in "iu" for bits in (8, 16, 32, 64)}
    equal(compiled(lambda: lib.echo_ints(**integers, result_shape_dtypes=tf.TensorSpec([8], tf.int64)))(), list(integers.values()))
    for value in (0.1, -3.5e30, float("inf"), 5e-324, -0.0):
        small = np.float32(value)
        got = made(lib.echo_floats, f32=small, f64=value, shapes=[2])().numpy()
        equal(got.view(np.uint64), np.array([small, value], np.float64).view(np.uint64))
    for text in ("plain", "grüße, 世界", 'quote " and \\ and \n', "NUL \0 inside"):
        data = np.frombuffer(text.encode(), np.uint8)
        equal(made(lib.echo_string, text=text, shapes=[len(data)])(), data)
    arrays = {"i8": [-1, 2], "i16": [3], "i32": [-4], "i64": [2**40], "f32": [0.5, float("inf")], "f64": [-0.25]}
    wanted = [float(item) for array in arrays.values() for item in array]
    equal(compiled(lambda: lib.echo_arrays(**arrays, shapes=[len(wanted)]))(), np.array(wanted))
    options = {"flag": True, "n": 3, "x": 0.5, "name": "four"}
    equal(compiled(lambda: lib.echo_dict(options=options, shapes=[4]))(), np.array([1, 3, 0.5, 4.0]))
    equal(compiled(lambda: (lib.echo_bool(value=True), lib.echo_bool(value=False)))()[0], np.int64(1))


UNPICKLED = """
import pickle, sys
import tensorflow as tf
norm = pickle.loads(bytes.fromhex(sys.argv[1]))
print(tf.function(lambda x: norm(x, eps=0.0), jit_compile=True, autograph=False)(tf.constant([[3.0, 4.0]])).numpy().tolist())
"""


def pickled():
    """When a different process unpickles a library, it loads the library. In the same process, unpickling returns the
    same object."""
    lib = load("rms_norm")
    for thing in (lib, lib.rms_norm):
        if not pickle.loads(pickle.dumps(thing)) is copy.copy(thing) is copy.deepcopy([thing])[0] is thing:
            raise AssertionError(f"{thing!r} is another one")
    done = subprocess.run([sys.executable, "-c", UNPICKLED, pickle.dumps(lib.rms_norm).hex()], capture_output=True, text=True, check=False)
    if done.stdout.strip() != str(normed(np.array([[3, 4]], np.float32), 0).tolist()):
        raise AssertionError(f"{done.stdout} {done.stderr[-2000:]}")


def shapes():
    """Shapes are inferred if the contract determines them, and required otherwise."""
    lib = load("conformance")
    if compiled(lambda x: lib.scale(x, factor=2.0))(X).shape != (2, 3):
        raise AssertionError("the contract says the shape")
    raises(TypeError, lambda: compiled(lambda: lib.echo_ints(**{f"{s}{b}": 1 for s in "iu" for b in (8, 16, 32, 64)}))(), "`y`", "shapes=")
    raises(TypeError, lambda: compiled(lambda x: lib.scale(x, factor=2.0, shapes=[3, 2]))(X), "result `y`", "[3, 2]", "[2, 3]")
    raises(tf.errors.InvalidArgumentError, lambda: compiled(lambda x: lib.scale(x, factor=2.0, result_shape_dtypes=tf.TensorSpec([2, 3], tf.int32)))(X), "F32", "S32")
    unknown = tf.function(lambda x: lib.scale(x, factor=2.0), jit_compile=True, input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    raises(TypeError, lambda: unknown(X), "argument `x`", "(None, 3)", "input_signature")
    near(compiled(lambda x: lib.sum_all(x, x, shapes=()))(X), np.float32(30))


def in_place():
    lib = load("conformance")
    x = tf.constant([1, 2, 3], tf.float32)
    equal(compiled(lambda x: lib.increment(x))(x), np.array([2, 3, 4], np.float32))
    equal(x, np.array([1, 2, 3], np.float32))


def calls():
    """A mistake in a call raises an error where the Python code calls the handler."""
    norm = load("rms_norm").rms_norm
    lib = load("conformance")
    raises(TypeError, lambda: compiled(norm)(tf.cast(X, tf.int32)), "argument `x`: expected float32, got int32[2, 3]", "tf.cast(x, 'float32')")
    raises(TypeError, lambda: compiled(lambda x: lib.scale(x))(X), "missing attribute `factor`")
    raises(TypeError, lambda: compiled(lambda x: norm(x, epsilon=1.0))(X), "`epsilon`", "`eps`")
    raises(TypeError, lambda: compiled(lambda x: norm(x, 1e-5))(X), "(`x`), got 2", "eps=")
    raises(TypeError, lambda: compiled(lambda: norm("text"))(), "argument `x`", "float32")
    raises(TypeError, lambda: compiled(lambda: norm([1j]))(), "argument `x`", "float32", "complex")
    raises(AttributeError, lambda: load("rms_norm").rms_nrm, "`rms_norm`")
    raises(AttributeError, lambda: load("rms_norm")["path"], "`path`")
    raises(RuntimeError, lambda: norm(X), "rms_norm.rms_norm", "eagerly", "tf.function(jit_compile=True)")
    raises(RuntimeError, lambda: tf.function(norm)(X), "XLA does not compile", "tf.function(jit_compile=True)")
    raises(TypeError, lambda: compiled(lambda x: lib.add_tokens(x, x))(X), "token")
    # TensorFlow does not pack elements of less than a byte, but passes them to XLA as packed elements.
    raises(TypeError, lambda: compiled(lambda x: lib.unpack(x, shapes=[3]))(tf.cast(tf.constant([1, 2, 3]), tf.as_dtype("int4"))), "int4")
    # A function that a compiled function calls is also compiled.
    near(compiled(lambda x: tf.function(norm, autograph=False)(x))(X), normed(X.numpy()))


def errors():
    """Errors of handlers become tf.errors of the same code, with their full text."""
    lib = load("conformance")
    kinds = (
        tf.errors.CancelledError, tf.errors.UnknownError, tf.errors.InvalidArgumentError, tf.errors.DeadlineExceededError,
        tf.errors.NotFoundError, tf.errors.AlreadyExistsError, tf.errors.PermissionDeniedError, tf.errors.ResourceExhaustedError,
        tf.errors.FailedPreconditionError, tf.errors.AbortedError, tf.errors.OutOfRangeError, tf.errors.UnimplementedError,
        tf.errors.InternalError, tf.errors.UnavailableError, tf.errors.DataLossError, tf.errors.UnauthenticatedError,
    )  # fmt: skip
    for code, kind in enumerate(kinds, 1):
        message = f"told as {code}, grüße"
        for handler in (lib.fail, lib.async_fail):
            run = made(handler, code=code, message=message, result_shape_dtypes=LIKE_X)
            # TensorFlow reserves this code for its own networking, and notes the original code in the message.
            said = "originally returned UnavailableError" if kind is tf.errors.UnavailableError else ""
            raises(tf.errors.InternalError if said else kind, functools.partial(run, X), message, said)
    panic = compiled(lambda x: lib.panic(x, message="at the disco", result_shape_dtypes=LIKE_X))
    for _ in range(2):
        raises(tf.errors.InternalError, lambda: panic(X), "panic", "at the disco")


def lacks():
    """A handler is refused if it needs a feature that this XLA lacks."""
    lib = load("conformance")
    raises(
        xla_ffi.UnsupportedRuntimeError,
        lambda: compiled(lambda x: lib.custom_options(x))(X),
        "conformance.custom_options: needs an XLA as in jaxlib 0.12.0",
        f"TensorFlow {tf.__version__} with XLA FFI 0.{_tf_host.Host().minor}",
    )
    if lib.custom_options.refused is None or lib.scale.refused is not None or "needs jaxlib 0.12.0" not in repr(lib):
        raise AssertionError(repr(lib))


def gradients():
    norm, lib = load("rms_norm").rms_norm, load("derivatives")
    x = tf.constant([[1.0, 2.0, 4.0]])

    def slope(function, *args):
        """Returns the gradient. Checks that the gradient is the same inside and outside of the compiled function."""
        @compiled
        def inner(*args):
            with tf.GradientTape() as tape:
                tape.watch(args)
                y = tf.nest.map_structure(tf.reduce_sum, function(*args))
            return tape.gradient(y, args)

        outer = compiled(function)
        with tf.GradientTape() as tape:
            tape.watch(args)
            y = outer(*args)
        for one, two in zip(inner(*args), tape.gradient(y, args)):
            if (one is None) != (two is None):
                raise AssertionError("one of them has no gradient")
            if one is not None:
                near(one, two)
        return inner(*args)

    plain = lambda x: x / tf.sqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = plain(x) ** 2
    np.testing.assert_allclose(slope(lambda x: norm(x) ** 2, x)[0], tape.gradient(y, x), atol=1e-6)
    v = tf.constant([1.0, 2.0], tf.float64)
    near(slope(lib.cube, v)[0], 6 * v**2)
    near(slope(lambda v: lib.cube(v, a=5.0), v)[0], 15 * v**2)
    near(slope(lib.exponential, v)[0], tf.exp(v))  # uses the additional result of its forward handler
    near(slope(lib.sine, v)[0], tf.cos(v))  # uses the transpose of its linear map
    k = tf.constant([2, 3])
    got = slope(lambda v, k: lib.mixed(v, k, v * 2)[0], v, k)
    near(got[0], tf.constant([6.0, 64.0], tf.float64))
    if got[1] is not None:
        raise AssertionError("integers have no gradient")
    z = tf.constant([1 + 2j, -3 + 0.5j], tf.complex128)
    near(slope(lib.square, z)[0], tf.math.conj(2 * z))
    conformance = load("conformance")
    raises(TypeError, lambda: slope(lambda x: conformance.scale(x, factor=2.0), X), "conformance.scale", "tf.custom_gradient")


SAVED = """
import sys
import tensorflow as tf
import xla_ffi.tensorflow
if sys.argv[2] != "none":
    xla_ffi.tensorflow.load(sys.argv[2])
model = tf.saved_model.load(sys.argv[1])
print(model.norm(tf.constant([[3.0, 4.0]])).numpy().tolist())
"""


def saved_model():
    norm = load("rms_norm").rms_norm
    module = tf.Module()
    module.norm = tf.function(lambda x: norm(x, eps=0.0), jit_compile=True, autograph=False, input_signature=[tf.TensorSpec([1, 2], tf.float32)])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        run = lambda library: subprocess.run([sys.executable, "-c", SAVED, folder, library], capture_output=True, text=True, check=False)
        done = run(str(FOLDER / "librms_norm.so"))
        wanted = normed(np.array([[3, 4]], np.float32), 0).tolist()
        if done.returncode != 0 or done.stdout.strip() != str(wanted):
            raise AssertionError(f"{done.stdout} {done.stderr[-2000:]}")
        # In a process that has not loaded the library, XLA's error names the handler.
        done = run("none")
        if done.returncode == 0 or "rms_norm" not in done.stderr:
            raise AssertionError(f"{done.stdout} {done.stderr[-2000:]}")


def names_taken():
    """A handler name can be registered for one function only."""
    load("rms_norm")
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder) / "libother.so"
        shutil.copy(FOLDER / "librms_norm.so", other)
        raises(xla_ffi.LibraryError, lambda: xla_ffi.tensorflow.load(other), "`rms_norm`", "TensorFlow", "librms_norm.so")
        raises(xla_ffi.ManifestError, lambda: xla_ffi.tensorflow.load(pathlib.Path(folder) / "none.so"), "No such file")


def without_jax():
    """All checks pass without jax, and functions that need jax raise a clear error."""
    if importlib.util.find_spec("jax") is not None:
        raise AssertionError("this environment is to have no jax")
    raises(ImportError, lambda: xla_ffi.load, "xla_ffi.load needs jax", "xla_ffi.tensorflow.load")
    raises(AttributeError, lambda: xla_ffi.lode, "no attribute 'lode'")
    if "jax" in sys.modules:
        raise AssertionError("jax was imported")


def main():
    for name, work in {
        "results": results, "attributes": attributes, "pickled": pickled, "C and C++": languages, "libraries that register themselves": on_load,
        "result shapes": shapes, "in-out operands": in_place, "wrong calls": calls,
        "errors": errors, "a handler that needs more": lacks, "gradients": gradients,
        "a saved model": saved_model, "names taken": names_taken, "no jax": without_jax,
    }.items():  # fmt: skip
        check(name, work)
    finish()


main()
