"""Compares the speed of `sparse_solve` with alternatives: python bench.py [--quick] [--svg FILE]

Matrices are five-point stencils of convection and diffusion on a square grid, not symmetric, in
float64. Each time is the best of several calls of a jitted function, in ms. "new values" factorises
a matrix with a known pattern again; "same matrix" changes only the right-hand side.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jax.experimental.sparse.linalg import spsolve

import sparse_solve

try:
    import klujax
except ImportError:
    klujax = None

jax.config.update("jax_enable_x64", True)


def stencil(side):
    """Returns the matrix of -u'' + u' on a grid, as CSR."""
    line = scipy.sparse.diags_array([-1.2, 2.0, -0.8], offsets=[-1, 0, 1], shape=(side, side))
    one = scipy.sparse.eye_array(side)
    return scipy.sparse.csr_array(scipy.sparse.kron(line, one) + scipy.sparse.kron(one, line))


def solvers(a):
    """Returns names, functions of the values and b, and functions of b for a fixed matrix."""
    n, (rows, columns) = a.shape[0], a.nonzero()
    indices, indptr = jnp.asarray(a.indices, jnp.int32), jnp.asarray(a.indptr, jnp.int32)
    given, both = jnp.asarray(a.data), lambda solve: (solve, lambda b: solve(given, b))
    like = jax.ShapeDtypeStruct((n,), jnp.float64)

    def splu(data, b):
        matrix = scipy.sparse.csc_array(scipy.sparse.csr_array((np.asarray(data), a.indices, a.indptr), a.shape))
        return scipy.sparse.linalg.splu(matrix).solve(np.asarray(b))

    yield "sparse_solve", *both(jax.jit(lambda data, b: sparse_solve.solve(data, indices, indptr, b)))
    yield "jax's spsolve", *both(jax.jit(lambda data, b: spsolve(data, indices, indptr, b, tol=0)))
    yield "splu, pure_callback", *both(jax.jit(lambda data, b: jax.pure_callback(splu, like, data, b)))
    if klujax is not None:
        i, j = jnp.asarray(rows, jnp.int32), jnp.asarray(columns, jnp.int32)
        yield "klujax", *both(jax.jit(lambda data, b: klujax.solve(i, j, data, b)))
        # klujax's handles are created, passed and freed explicitly.
        symbolic = klujax.analyze(i, j, n)
        numeric = klujax.factor(i, j, given, symbolic)
        anew = lambda data, b: klujax.solve_with_symbol(i, j, data, b, symbolic)
        yield "klujax, handles", anew, lambda b: klujax.solve_with_numeric(numeric, b, symbolic)


def best(call, again):
    """Returns the shortest time in ms; `call` receives the index of the repetition."""
    times = []
    for k in range(again + 1):
        begun = time.perf_counter()
        jax.block_until_ready(call(k))
        times.append(1e3 * (time.perf_counter() - begun))
    return min(times[1:])


def measure(side, again):
    a = stencil(side)
    values = [jnp.asarray(a.data * (1 + 1e-3 * k)) for k in range(again + 1)]
    sides = [jnp.asarray(np.random.default_rng(k).normal(size=a.shape[0])) for k in range(again + 1)]
    for name, solve, solve_again in solvers(a):
        x = np.asarray(solve(values[0], sides[0]))
        residual = np.linalg.norm(a @ x - sides[0]) / np.linalg.norm(sides[0])
        new = best(lambda k: solve(values[k], sides[k]), again)
        same = best(lambda k: solve_again(sides[k]), again)
        yield name, new, same, residual


def picture(rows, path):
    """Returns solve times with the same matrix, and a sparsity pattern, as SVG."""
    a, size = stencil(12), 240
    dots = "".join(f'<rect x="{20 + c * size / 144:.1f}" y="{40 + r * size / 144:.1f}" width="1.7" height="1.7"/>' for r, c in zip(*a.nonzero()))
    longest = np.log10(max(same for _, _, _, same, _ in rows) / 0.01)
    bars, y = [], 40
    for n, name, _, same, _ in rows:
        width = 200 * max(np.log10(same / 0.01), 0.05) / longest
        fill = "#c2452d" if name == "sparse_solve" else "#9aa5b1"
        bars.append(f'<text x="440" y="{y + 11}" text-anchor="end">{name}, n = {n}</text><rect x="448" y="{y}" width="{width:.0f}" '
                    f'height="14" fill="{fill}"/><text x="{454 + width:.0f}" y="{y + 11}">{same:.3g} ms</text>')  # fmt: skip
        y += 20
    path.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="740" height="{max(y, 290) + 10}" font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/><text x="20" y="28">the entries of A, n = 144</text>'
        f'<rect x="20" y="40" width="{size}" height="{size}" fill="none" stroke="#ccc"/>{dots}'
        f'<text x="448" y="28">a solve with the same matrix (log scale)</text>{"".join(bars)}</svg>\n'
    )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--svg", type=argparse.FileType("w"))
    options = options.parse_args()
    rows = []
    print(f"{'n':>7} {'':22}{'new values':>12}{'ratio':>8}{'same matrix':>13}{'ratio':>8}{'residual':>11}")
    for side in (16,) if options.quick else (32, 100, 300):
        own = None
        for name, new, same, residual in measure(side, 2 if options.quick else 7):
            own = own or (new, same)
            rows.append((side * side, name, new, same, residual))
            print(f"{side * side:>7} {name:22}{new:>12.3f}{new / own[0]:>8.2f}{same:>13.3f}{same / own[1]:>8.2f}{residual:>11.1e}", flush=True)
            assert name != "sparse_solve" or residual <= 1e-10, residual
    if options.svg:
        picture(rows, options.svg)


if __name__ == "__main__":
    main()
