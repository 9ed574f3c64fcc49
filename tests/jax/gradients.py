"""Tests gradients that handlers declare: the table of docs/gradients.md, one check per cell.

usage: gradients.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py; `derivatives` is in the folder of the Rust libraries)
"""

import dataclasses
import functools
import os
import sys

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # saves time, because there are hundreds of small programs

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import xla_ffi  # noqa: E402
from checks import check, finish, raises  # noqa: E402
from jax.test_util import check_grads  # noqa: E402
from xla_ffi import _handler, _manifest, _related_handlers  # noqa: E402

X = jnp.linspace(0.3, 1.7, 4)
Y = jnp.linspace(-0.8, 0.9, 4)
K = jnp.array([2, 3, 1, 4], jnp.int32)
INDEX = jnp.array([3, 0, 3, 1], jnp.int32)
W = jnp.linspace(0.5, 1.5, 3)
ROWS = jnp.linspace(-1.0, 2.0, 12).reshape(4, 3)


@dataclasses.dataclass
class Row:
    """A row of the table of gradients: a handler's call, the same function in jax.numpy, and the supported
    transformations."""

    name: str
    function: object
    reference: object
    args: tuple
    forward: bool = False
    reverse: bool = True
    second: tuple = ()  # any of "rev-rev", "fwd-rev", "rev-fwd", "fwd-fwd"


def table(lib):
    take = dict(mode="promise_in_bounds")
    spec = lib.gather.spec
    one_way = _handler.Handler(
        dataclasses.replace(spec, gradient=dataclasses.replace(spec.gradient, transpose=None)), lib.gather.target, lib.path, None
    )
    _related_handlers.resolve(lib.path, {"gather": one_way})
    return [
        Row("vjp", lib.cube, lambda x: 2 * x**3, (X,), second=("rev-rev",)),
        Row("vjp with forward", lib.exponential, jnp.exp, (X,)),
        Row("vjp, several results", lambda x, y: lib.mixed(x, K, y)[::2], lambda x, y: (x**K * y, x * y), (X, Y)),
        Row("vjp, complex", lib.square, lambda x: x * x, (X + 1j * Y,)),
        Row("vjp, a shared operand", lib.rows, lambda x, w: x * w, (ROWS, W)),
        Row("vjp, any number of operands", lib.sum, lambda x, y: x + y, (X, Y)),
        Row("vjp, batched by another", lib.mean, jnp.mean, (X,)),
        Row("jvp and transpose", lib.sine, jnp.sin, (X,), forward=True, second=("rev-rev", "fwd-rev", "rev-fwd", "fwd-fwd")),
        Row("jvp", lib.cosine, jnp.cos, (X,), forward=True, reverse=False),
        Row("linear", lambda x: lib.gather(x, INDEX), lambda x: x.at[INDEX].get(**take), (X,), forward=True,
            second=("rev-rev", "fwd-rev", "rev-fwd", "fwd-fwd")),
        Row("linear, no transpose", lambda x: one_way(x, INDEX), lambda x: x.at[INDEX].get(**take), (X,), forward=True,
            reverse=False, second=("fwd-fwd",)),
    ]  # fmt: skip


def close(got, wanted):
    flat = jax.tree_util.tree_leaves
    for a, b in zip(flat(got), flat(wanted)):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)
    if len(flat(got)) != len(flat(wanted)):
        raise AssertionError(f"{len(flat(got))} parts, expected {len(flat(wanted))}")


def total(results):
    """Returns a real number that depends on all results. Each result has a different weight, so that swapped results
    are detected."""
    parts = jax.tree_util.tree_leaves(results)
    return sum(jnp.sum(jnp.cos(part.real * (i + 1)) + part.imag**2) for i, part in enumerate(parts))


def loss(function):
    return lambda *args: total(function(*args))


def everywhere(row):
    return tuple(range(len(row.args)))


def slope(function, row):
    return jax.grad(loss(function), everywhere(row))


def batch(row):
    return tuple(jnp.stack([arg, arg * 0.5, arg + 0.25]) for arg in row.args)


def in_scan(function):
    """Returns a loop that feeds the function's first result back into its first operand and sums the results."""

    def run(*args):
        def step(carry, scale):
            out = jax.tree_util.tree_leaves(function(carry, *args[1:]))
            mixed = carry + 0.1 * jnp.sum(out[0]) * jnp.ones_like(carry) * scale
            return mixed, sum(jnp.sum(part) for part in out)

        carry, sums = jax.lax.scan(step, args[0], jnp.arange(1.0, 4.0))
        return jnp.sum(carry * carry) + jnp.sum(sums)

    return run


def same(transform):
    """Returns a check that the transformed function equals the transformed reference."""
    return lambda row: close(transform(row.function, row), transform(row.reference, row))


def proven(mode, order=1):
    return lambda row: check_grads(row.function, row.args, order, modes=[mode], atol=1e-4, rtol=1e-4)


def direction(row):
    return tuple(jnp.cos(arg + 1) for arg in row.args)


def real_scan(f, row):
    run = in_scan(f)
    return jax.grad(lambda *args: run(*args).real, everywhere(row))(*row.args)


def linearized(f, row):
    out, tangent = jax.linearize(f, *row.args)
    return out, tangent(*direction(row)), tangent(*row.args)


def whole(jacobian):
    return lambda f, row: jacobian(f, everywhere(row), holomorphic=jnp.iscomplexobj(row.args[0]))(*row.args)


# The checks in reverse mode, then those in forward mode.
REVERSE = {
    "check_grads": proven("rev"),
    "grad": same(lambda f, row: slope(f, row)(*row.args)),
    "grad in jit": same(lambda f, row: jax.jit(slope(f, row))(*row.args)),
    "grad of jit": same(lambda f, row: slope(jax.jit(f), row)(*row.args)),
    "vmap of grad": same(lambda f, row: jax.vmap(slope(f, row))(*batch(row))),
    "grad of vmap": same(lambda f, row: slope(jax.vmap(f), row)(*batch(row))),
    "vmap twice": same(lambda f, row: slope(jax.vmap(jax.vmap(f)), row)(*(jnp.stack([b, b + 1]) for b in batch(row)))),
    "grad of vmap of some": same(
        lambda f, row: slope(jax.vmap(f, (0, *[None] * (len(row.args) - 1))), row)(batch(row)[0], *row.args[1:])
    ),
    "grad of scan": same(real_scan),
    "vmap of grad of scan": same(
        lambda f, row: jax.vmap(jax.grad(lambda *args: in_scan(f)(*args).real, everywhere(row)))(*batch(row))
    ),
    "grad of checkpoint": same(lambda f, row: slope(jax.checkpoint(f), row)(*row.args)),
    "jacrev": same(whole(jax.jacrev)),
}
FORWARD = {
    "check_grads, forward": proven("fwd"),
    "jvp": same(lambda f, row: jax.jvp(f, row.args, direction(row))),
    "jvp in jit": same(lambda f, row: jax.jit(lambda *args: jax.jvp(f, args, direction(row)))(*row.args)),
    "jvp of vmap": same(lambda f, row: jax.jvp(jax.vmap(f), batch(row), batch(row))),
    "jvp of scan": same(lambda f, row: jax.jvp(in_scan(f), row.args, direction(row))),
    "linearize": same(linearized),
    "jacfwd": same(whole(jax.jacfwd)),
}
SECOND = {
    "rev-rev": (jax.jacrev, jax.jacrev),
    "fwd-rev": (jax.jacfwd, jax.jacrev),  # the combination that jax.hessian uses
    "rev-fwd": (jax.jacrev, jax.jacfwd),
    "fwd-fwd": (jax.jacfwd, jax.jacfwd),
}


def second(outer, inner, row):
    twice = lambda f: outer(inner(lambda x: jnp.sum(f(x) ** 2)))(*row.args)
    close(twice(row.function), twice(row.reference))


def cells(row):
    for name, cell in {**REVERSE, **FORWARD}.items():
        if name in FORWARD:
            can, error = row.forward, ("forward mode", "`jvp = …`")
        else:
            can, error = row.reverse, ("reverse mode", "`transpose = …`")
        if can:
            yield name, functools.partial(cell, row)
        else:
            yield f"{name}: refused", lambda cell=cell, error=error: raises(TypeError, lambda: cell(row), *error)
    for name in SECOND if len(row.args) == 1 and not jnp.iscomplexobj(row.args[0]) else ():
        if name in row.second:
            yield f"second order, {name}", functools.partial(second, *SECOND[name], row)
        else:
            refusal = lambda name=name: raises((TypeError, ValueError), lambda: second(*SECOND[name], row), "derivatives.")
            yield f"second order, {name}: refused", refusal


# ---- operands ------------------------------------------------------------------------------------------


def integers(lib):
    """Integer operands and results have no tangents. If requested, their type is jax's float0."""
    function = lambda x, k, y: lib.mixed(x, k, y)
    out, pull = jax.vjp(function, X, K, Y)
    zero = np.zeros(4, jax.dtypes.float0)
    dx, dk, dy = pull((jnp.ones(4), zero, jnp.ones(4)))
    close((dx, dy), (K * X ** (K - 1) * Y + Y, X**K + X))
    if dk.dtype != jax.dtypes.float0 or out[1].tolist() != [3, 4, 2, 5]:
        raise AssertionError((dk, out))
    close(jax.grad(lambda x: lib.mixed(x, K, Y)[1].sum().astype(float) + x.sum())(X), jnp.ones(4))
    gathered = lambda x: jax.jvp(lambda x, i: lib.gather(x, i), (x, INDEX), (Y, zero))[1]
    close(gathered(X), Y[INDEX])
    close(jax.vmap(jax.grad(lambda x, i: (lib.gather(x, i) ** 2).sum()), (None, 0))(X, jnp.stack([INDEX, INDEX[::-1]])),
          jax.vmap(jax.grad(lambda x, i: (x[i] ** 2).sum()), (None, 0))(X, jnp.stack([INDEX, INDEX[::-1]])))  # fmt: skip


def zeros(lib):
    """Symbolic zero tangents and cotangents are treated as zero."""
    for i in (0, 2):
        for argument in (0, 1):
            one = lambda f: jax.grad(lambda *args: jnp.sum(f(*args)[i] ** 2), argument)(X, Y)
            close(one(lambda x, y: lib.mixed(x, K, y)), one(lambda x, y: (x**K * y, None, x * y)))
    close(jax.jvp(lambda x: lib.sine(x) + lib.sine(jnp.ones(4)), (X,), (Y,))[1], jnp.cos(X) * Y)
    close(jax.grad(lambda x: lib.sine(jax.lax.stop_gradient(x)).sum() + x.sum())(X), jnp.ones(4))
    # Only the first element has a nonzero cotangent.
    close(jax.grad(lambda x: lib.cube(x)[0])(X), jnp.where(jnp.arange(4) == 0, 6 * X**2, 0))
    close(jax.grad(lambda w: lib.rows(ROWS, w).sum())(W), ROWS.sum(0))


def attributes(lib):
    """Derivative handlers receive the attributes they declare: the call's values, else the differentiated handler's
    defaults."""
    close(jax.grad(lambda x: lib.cube(x).sum())(X), 6 * X**2)
    close(jax.grad(lambda x: lib.cube(x, a=5.0).sum())(X), 15 * X**2)
    close(jax.grad(lambda x: lib.mean(x, times=3.0))(X), jnp.full(4, 0.75))


def linear_transpose(lib):
    function = lambda x: lib.gather(x, INDEX)
    (back,) = jax.linear_transpose(function, X)(Y)
    close(back, jnp.zeros(4).at[INDEX].add(Y))
    raises(TypeError, lambda: jax.linear_transpose(lib.sine, X)(Y), "sine", "linear")


def undeclared(lib):
    for work in (jax.grad(lambda x: lib.alone(x).sum()), lambda x: jax.jvp(lib.alone, (x,), (x,))):
        raises(ValueError, lambda work=work: work(X), "alone", "vjp = …", "with_vjp")


def with_vjp(lib):
    """with_vjp uses a gradient that is written in Python."""
    fwd = lambda x, **options: (lib.in_turn(x, **options), jnp.ones_like(x))
    bwd = lambda ones, g, **options: (ones * g.sum(),)
    function = lib.in_turn.with_vjp(fwd, bwd)
    reference = lambda x: jnp.full_like(x, 1.0) * jnp.sum(x)
    check_grads(function, (X,), 1, modes=["rev"])
    raises(TypeError, lambda: jax.jvp(function, (X,), (X,)), "custom_vjp")
    for transform in (lambda f: f, jax.jit, lambda f: (lambda x: jax.vmap(f)(jnp.stack([x, x])))):
        close(jax.grad(loss(transform(function)))(X), jax.grad(loss(transform(reference)))(X))
    if function.__name__ != "in_turn" or "in_turn" not in function.__doc__:
        raise AssertionError(function.__doc__)
    # Options are passed to all three functions, and operands that are not arrays are converted, as without with_vjp.
    seen = []

    def told(x, **options):
        seen.append(options)
        return lib.cube(x, **options), x

    cube = lib.cube.with_vjp(told, lambda x, g, a: (g * 3 * a * x**2,))
    close(jax.grad(lambda x: cube(x, a=4.0).sum())(X), 12 * X**2)
    close(cube([1.0, 2.0]), jnp.array([2.0, 16.0]))
    if seen != [{"a": 4.0}]:
        raise AssertionError(seen)


# ---- the examples -----------------------------------------------------------------------------------------


def rms_norm(lib):
    reference = lambda x: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    x = jnp.linspace(-1.0, 2.0, 24, dtype=jnp.float32).reshape(2, 3, 4)
    check_grads(lib.rms_norm, (x,), 1, modes=["rev"], atol=1e-2, rtol=1e-2)
    for transform in (lambda f: f, jax.jit, jax.vmap):
        got, wanted = (jax.grad(loss(transform(f)))(x) for f in (lib.rms_norm, reference))
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def matmul(lib):
    x, y = jnp.sin(jnp.arange(12.0)).reshape(1, 3, 4), jnp.cos(jnp.arange(8.0)).reshape(1, 4, 2)
    check_grads(lib.matmul, (x, y), 1, modes=["rev"], atol=1e-4, rtol=1e-4)
    both = lambda f: jax.grad(loss(f), (0, 1))(x, y)
    close(both(lib.matmul), both(jnp.matmul))


def main():
    libraries = dict(argument.split("=", 1) for argument in sys.argv[1:])
    load = lambda name: xla_ffi.load(libraries[f"Rust:{name}"], prefix=f"Rust_{name}")
    norm, product = load("rms_norm"), load("matmul")
    lib = xla_ffi.load(os.path.join(os.path.dirname(norm.path), "libderivatives.so"))
    for row in table(lib):
        for name, cell in cells(row):
            check(f"{row.name}: {name}", cell)
    for work in (integers, zeros, attributes, linear_transpose, undeclared, with_vjp):
        check(f"gradients, {work.__name__}", lambda work=work: work(lib))
    check("example rms_norm", lambda: rms_norm(norm))
    check("example matmul", lambda: matmul(product))
    for language in ("C++", "C"):
        # The check runs only for libraries whose manifests have a gradient.
        for example, handler, work in (("rms_norm", "rms_norm", rms_norm), ("matmul", "matmul", matmul)):
            path = libraries.get(f"{language}:{example}")
            specs = [specs for specs, _ in _manifest.read_all(path, required=False).values()] if path else []
            if any(handler in each and each[handler].gradient for each in specs):
                named = xla_ffi.load(path, prefix=f"{language}_{example}")
                check(f"example {handler}, {language}", lambda work=work, named=named: work(named))
    finish()


if __name__ == "__main__":
    main()
