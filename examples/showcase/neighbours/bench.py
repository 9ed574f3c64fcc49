"""Compares the speed of `neighbours` with alternatives: python bench.py [--quick] [--svg FILE]

The benchmark finds the 8 nearest of n points in space for n queries, in float32. Each time is the
best of several calls of a jitted function, in ms. "new points" includes building a tree; "same
points" has different queries for the same points. Recall counts neighbours that are as near as
those of brute force, up to a relative error of 1e-6, on 1000 queries.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.spatial

import neighbours

K = 8


def searches(points):
    """Returns names, functions of points and queries, and functions of queries for fixed points."""
    both = lambda near: (near, lambda queries: near(points, queries))
    tree = scipy.spatial.cKDTree(np.asarray(points))

    def like(queries):
        shape = (queries.shape[0], K)
        return jax.ShapeDtypeStruct(shape, jnp.int32), jax.ShapeDtypeStruct(shape, jnp.float32)

    def found(tree, queries):
        distances, indices = tree.query(np.asarray(queries), K, workers=-1)
        return indices.astype(np.int32), distances.astype(np.float32)

    @jax.jit
    def brute(points, queries):
        def some(queries):
            squares = ((queries[:, None] - points) ** 2).sum(-1)
            far, indices = jax.lax.top_k(-squares, K)
            return indices, jnp.sqrt(-far)

        batch = max(1, min(queries.shape[0], 2**24 // points.shape[0]))
        return jax.lax.map(lambda query: jax.tree.map(lambda x: x[0], some(query[None])), queries, batch_size=batch)

    anew = lambda points, queries: found(scipy.spatial.cKDTree(np.asarray(points)), queries)
    yield "neighbours", *both(jax.jit(lambda points, queries: neighbours.nearest(points, queries, K)))
    if points.shape[0] <= 20_000:
        yield "jnp, brute force", *both(brute)
    yield "cKDTree, callback", *both(jax.jit(lambda p, q: jax.pure_callback(anew, like(q), p, q)))
    # This alternative builds its tree explicitly, outside of jit.
    kept = jax.jit(lambda queries: jax.pure_callback(lambda queries: found(tree, queries), like(queries), queries))
    yield "cKDTree, by hand", None, kept


def best(call, again):
    """Returns the shortest time in ms; `call` receives the index of the repetition."""
    times = []
    for k in range(again + 1):
        begun = time.perf_counter()
        jax.block_until_ready(call(k))
        times.append(1e3 * (time.perf_counter() - begun))
    return min(times[1:])


def measure(n, again):
    cloud = lambda seed: jnp.asarray(np.random.default_rng(seed).normal(size=(n, 3)), jnp.float32)
    points, queries = [cloud(k) for k in range(again + 1)], [cloud(100 + k) for k in range(again + 1)]
    exact = scipy.spatial.cKDTree(np.asarray(points[0])).query(np.asarray(queries[0][:1000]), K)[0]
    for name, near, near_again in searches(points[0]):
        distances = np.asarray(near_again(queries[0])[1])[:1000]
        recall = np.mean(np.abs(distances - exact) <= 1e-6 * exact)
        new = best(lambda k: near(points[k], queries[k]), again) if near else float("nan")
        same = best(lambda k: near_again(queries[k]), again)
        yield name, new, same, recall


def picture(path):
    """Returns the neighbours of some queries in the plane, as SVG."""
    rng = np.random.default_rng(4)
    points, queries = rng.uniform(10, 470, (400, 2)).astype("f4"), rng.uniform(80, 400, (5, 2)).astype("f4")
    indices, distances, counts = map(np.asarray, neighbours.within(points, queries, 60.0, 12))
    lines = "".join(
        f'<circle cx="{x}" cy="{y}" r="60" fill="#c2452d18" stroke="#c2452d"/><text x="{x + 44}" y="{y - 44}">{count} within, '
        f"12 given</text>"
        + "".join(f'<line x1="{x}" y1="{y}" x2="{points[i, 0]}" y2="{points[i, 1]}" stroke="#c2452d"/>' for i in near if i >= 0)
        for (x, y), near, count in zip(queries, indices, counts)
    )
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2"/>' for x, y in points)
    path.write(
        '<svg xmlns="http://www.w3.org/2000/svg" width="560" height="480" font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/>{lines}{dots}</svg>\n'
    )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--svg", type=argparse.FileType("w"))
    options = options.parse_args()
    print(f"{'n':>7} {'':20}{'new points':>12}{'ratio':>8}{'same points':>13}{'ratio':>8}{'recall':>9}")
    for n in (500,) if options.quick else (1_000, 10_000, 100_000):
        own = None
        for name, new, same, recall in measure(n, 2 if options.quick else 7):
            own = own or (new, same)
            print(f"{n:>7} {name:20}{new:>12.3f}{new / own[0]:>8.2f}{same:>13.3f}{same / own[1]:>8.2f}{recall:>9.4f}", flush=True)
            assert name != "neighbours" or recall == 1, recall
    if options.svg:
        picture(options.svg)


if __name__ == "__main__":
    main()
