"""Compares the speed of `images` with alternatives: python bench.py [--quick]

The benchmark decodes a batch of 32 square JPEG files to RGB. Each time is the best of several calls
of a jitted function, in ms per batch. "apart" is the largest difference from Pillow's pixels, out
of 255.
"""

import argparse
import io
import time

import jax
import numpy as np
from PIL import Image

import images

COUNT = 32


def files(side):
    y, x = np.mgrid[:side, :side]
    for seed in range(COUNT):
        noise = np.random.default_rng(seed).normal(0, 6, (side, side, 3))
        waves = [128 + 90 * np.sin((x + seed) / (9 + 3 * channel)) * np.cos(y / 17) for channel in range(3)]
        out = io.BytesIO()
        Image.fromarray((np.stack(waves, -1) + noise).clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=90)
        yield out.getvalue()


def decoders(side):
    def pillow(packed, lengths):
        given = zip(np.asarray(packed), np.asarray(lengths))
        return np.stack([np.asarray(Image.open(io.BytesIO(row[:n].tobytes())).convert("RGB")) for row, n in given])

    like = jax.ShapeDtypeStruct((COUNT, side, side, 3), np.uint8)
    yield "images", jax.jit(lambda *given: images.decode(*given, height=side, width=side))
    # One custom call per image; the calls are independent.
    one = lambda row, n: images.decode(row, n, height=side, width=side)
    yield "images, a call each", jax.jit(lambda rows, lengths: [one(rows[i], lengths[i]) for i in range(COUNT)])
    yield "Pillow, callback", jax.jit(lambda *given: jax.pure_callback(pillow, like, *given))


def best(call, again):
    """Returns the shortest time in ms."""
    times = []
    for _ in range(again + 1):
        begun = time.perf_counter()
        jax.block_until_ready(call())
        times.append(1e3 * (time.perf_counter() - begun))
    return min(times[1:])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options = options.parse_args()
    print(f"{'side':>7} {'':20}{'batch':>12}{'ratio':>8}{'apart':>8}")
    for side in (32,) if options.quick else (64, 256, 1024):
        given = images.pack(list(files(side)))
        own, wanted = None, None
        results = [(name, decode, np.stack(decode(*given)).astype(int)) for name, decode in decoders(side)]
        wanted = results[-1][2]
        for name, decode, pixels in results:
            took = best(lambda: decode(*given), 2 if options.quick else 5)
            own = own or took
            apart = np.abs(pixels - wanted).max()
            print(f"{side:>7} {name:20}{took:>12.3f}{took / own:>8.2f}{apart:>8}", flush=True)
            assert apart <= 8, apart


if __name__ == "__main__":
    main()
