"""The features of the support matrix for the original custom calls, the API before XLA FFI.

``world.original`` is the library of example 11: A[i] = B[i % 128] + C[i] with every calling convention, and the same
functions adapted to XLA FFI.
"""

import ctypes

import jax
import jax.extend.core as jex
import jaxlib.version
import numpy as np
from cells import Absent, expect, expect_error, f32, not_in
from features import F, feature
from jax._src.lib import xla_client
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo
from xla_ffi import _jax, _primitive

B = np.arange(1, 129, dtype=F)
C = np.arange(2048, dtype=F) / 2
A = B[np.arange(2048) % 128] + C


def original(world):
    """Returns the library, whose targets are registered as XLA's API version 0."""
    if world.original is None:
        raise not_in(world.library.kind, "targets of the original custom calls")
    import xla_ffi

    return xla_ffi.load(world.original)


def adapted(world, name, results, *args, **attrs):
    """Calls an adapted function as a handler of XLA FFI."""
    library = original(world)
    address = ctypes.cast(getattr(library._image, name), ctypes.c_void_p).value
    _jax.register(f"adapted.{name}", {"execute": address}, "cpu")
    return _primitive.call(f"adapted.{name}", results, args, attrs)


@feature
def legacy_original(world):
    """original custom calls: API_VERSION_ORIGINAL

    Calls a target of API version 1, which cannot report errors.
    """
    target = original(world).legacy["tiled_add_cpu"]
    call = jax.jit(lambda b, c: target(b, c, result_shape_dtypes=f32(2048), api_version=1))
    expect(call(B, C), A)
    for wrong in (0, 4):
        try:
            target(B, C, result_shape_dtypes=f32(2048), api_version=wrong)
        except TypeError as error:
            if f"1, 2 or 3, got {wrong}" not in str(error):
                raise
        else:
            raise AssertionError(f"api_version={wrong} is taken")
    try:
        jax.grad(lambda b: call(b, C).sum())(B)
    except ValueError as error:
        if "tiled_add_cpu" not in str(error) or "jax.custom_vjp" not in str(error):
            raise
    else:
        raise AssertionError("a target without a gradient is differentiated")


@feature
def legacy_tuple(world):
    """original custom calls: a tuple result, by its leaves

    XLA passes the addresses of the arrays in a tuple result.
    """
    target = original(world).legacy["tiled_add_two"]
    call = jax.jit(lambda b, c: target(b, c, result_shape_dtypes=[f32(2048)] * 2, api_version=1))
    first, second = call(B, C)
    expect(first, A)
    expect(second, A + 1)


@feature
def legacy_nested(world):
    """original custom calls: nested tuples of operands and result, by their leaves

    XLA passes the addresses of the arrays in nested tuples.
    """
    target = original(world).legacy["tiled_add_nested"]
    try:
        first, second = jax.jit(lambda b, c: in_tuples(target.target, True, b, c))(B, C)
    except Exception as error:
        if "Nested tuples not implemented" in str(error):
            raise Absent(str(error)) from error
        raise
    expect(first, A)
    expect(second, A + 1)


@feature
def legacy_pair(world):
    """original custom calls: a tuple operand

    XLA passes a tuple operand by its arrays or, before jaxlib 0.4.32, by its root.
    """
    # Before jaxlib 0.4.32, XLA:CPU passed the root of a tuple, as XLA documents.
    by_root = jaxlib.version.__version_info__ < (0, 4, 32)
    target = original(world).legacy["tiled_add_pair" if by_root else "tiled_add_cpu"]
    expect(jax.jit(lambda b, c: in_tuples(target.target, False, b, c))(B, C)[0], A)


def in_tuples(target, nested, *args):
    """Calls ((B, C)) -> A, or -> (A, (A + 1)), in programs that jax's own functions cannot write."""
    primitive = jex.Primitive(f"in_tuples.{target}")
    primitive.multiple_results = True
    leaf = jax.core.ShapedArray((2048,), F)
    primitive.def_abstract_eval(lambda *_: (leaf,) * (1 + nested))

    def lower(_context, *operands):
        array = ir.RankedTensorType.get([2048], ir.F32Type.get())
        pair = hlo.TupleOp(operands).result
        result = ir.TupleType.get_tuple([array, ir.TupleType.get_tuple([array])]) if nested else array
        version = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)
        result = hlo.CustomCallOp([result], [pair], call_target_name=target, api_version=version).result
        if not nested:
            return [result]
        inner = hlo.GetTupleElementOp(result, 1).result
        return [hlo.GetTupleElementOp(result, 0).result, hlo.GetTupleElementOp(inner, 0).result]

    mlir.register_lowering(primitive, lower)
    return primitive.bind(*args)


@feature
def legacy_status(world):
    """original custom calls: API_VERSION_STATUS_RETURNING

    Calls a target of API version 2, which reports errors by a status.
    """
    target = original(world).legacy["tiled_add_status"]
    call = jax.jit(lambda b, c: target(b, c, result_shape_dtypes=f32(2048), api_version=2))
    expect(call(B, C), A)


@feature
def legacy_unified(world):
    """original custom calls: API_VERSION_STATUS_RETURNING_UNIFIED, opaque

    Calls a target of API version 3 with opaque text.
    """
    target = original(world).legacy["tiled_add_unified"]
    for opaque, more in (("", 0), ("12", 12)):
        call = jax.jit(
            lambda b, c: target(b, c, result_shape_dtypes=f32(2048), opaque=opaque, api_version=3)  # noqa: B023
        )
        expect(call(B, C), A + F(more), repr(opaque))


@feature
def legacy_failure(world):
    """original custom calls: a failure reaches the caller

    A target reports a failure by its status, and jax raises the error.
    """
    target = original(world).legacy["tiled_add_status"]
    call = jax.jit(lambda b, c: target(b, c, result_shape_dtypes=f32(2048), api_version=2))
    try:
        jax.block_until_ready(call(-B, C))
    except Exception as error:
        if "B[0] is negative" not in str(error):
            raise
    else:
        # The images are XLA's library with the libraries that it is linked with, and the program.
        for image in (xla_client._xla.__file__, None):
            if hasattr(ctypes.CDLL(image), "XlaCustomCallStatusSetFailure"):
                raise AssertionError(f"{image} exports the function that the target should have called")
        raise Absent("this XLA exports no function by which a target could write its status")


@feature
def adapted_calls(world):
    """adapted custom calls: results

    Calls targets that are adapted to XLA FFI, and compares their results.
    """
    expect(adapted(world, "tiled_add_cpu_ffi", [f32(2048)], B, C)[0], A)
    expect(adapted(world, "tiled_add_status_ffi", [f32(2048)], B, C)[0], A)
    expect(adapted(world, "tiled_add_checked_ffi", [f32(2048)], B, C)[0], A)
    for opaque in ("12", np.frombuffer(b"12", np.int8)):
        expect(adapted(world, "tiled_add_unified_ffi", [f32(2048)], B, C, opaque=opaque)[0], A + 12)
    first, second = adapted(world, "tiled_add_tuples_ffi", [f32(2048)] * 2, B, C)
    expect(first, A)
    expect(second, A + 1)


@feature
def adapted_failures(world):
    """adapted custom calls: a failure reaches the caller, its message whole

    Adapted targets report failures, and jax raises errors with the complete message.
    """
    result = [f32(2048)]
    expect_error(lambda: adapted(world, "tiled_add_status_ffi", result, -B, C), "B[0] is negative")
    # Without escapes, a NUL would end the text, and bytes that are not UTF-8 would break Python.
    opaque = np.frombuffer(b"no\x00number \xff" + b"x" * 3000, np.int8)
    error = expect_error(lambda: adapted(world, "tiled_add_unified_ffi", result, B, C, opaque=opaque), "number \\xff")
    if not any(f"no{nul}number" in error for nul in ("\\x00", "\\0")) or "x" * 3000 not in error:
        raise AssertionError(error)
    expect_error(lambda: adapted(world, "tiled_add_checked_ffi", [f32(7)], B, C), "2048", "7")
