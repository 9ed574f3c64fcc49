"""Tests the package in JAX."""

import io
import os

# Must be set before JAX creates its devices.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xla_ffi
from jax import export
from PIL import Image

import images

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map


def picture(seed, height=24, width=32, channels=3):
    """Returns a smooth image, which JPEG preserves well."""
    y, x = np.mgrid[:height, :width]
    waves = [128 + 100 * np.sin((x + seed) / 9 + channel) * np.cos(y / 7) for channel in range(channels)]
    return np.stack(waves, -1).astype(np.uint8)


def file(pixels, kind):
    out = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(out, kind, **({"quality": 92} if kind == "JPEG" else {}))
    return out.getvalue()


def packed(kind, count=4, **more):
    return images.pack([file(picture(seed, **more), kind) for seed in range(count)])


def own(packed, lengths):
    """Returns the pixels that Pillow decodes."""
    return np.stack([np.asarray(Image.open(io.BytesIO(row[:n].tobytes())).convert("RGB")) for row, n in zip(packed, lengths)])


@pytest.mark.parametrize(("kind", "apart"), [("PNG", 0), ("JPEG", 4)])
def test_decodes(kind, apart):
    given = packed(kind, 9)
    pixels = jax.jit(lambda *given: images.decode(*given, height=24, width=32))(*given)
    assert pixels.dtype == "uint8"
    assert np.abs(np.asarray(pixels, int) - own(*given)).max() <= apart
    np.testing.assert_array_equal(images.sizes(*given), [[24, 32, 3]] * 9)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels(channels):
    given = images.pack([file(picture(0), "PNG")])
    pixels = images.decode(*given, height=24, width=32, channels=channels)
    assert pixels.shape == (1, 24, 32, channels)
    if channels == 4:
        np.testing.assert_array_equal(pixels[..., 3], 255)
    if channels > 1:
        np.testing.assert_array_equal(pixels[0, ..., :3], picture(0))


def test_resizes():
    given = packed("PNG", 2)
    small = images.decode(*given, height=12, width=16, fit="resize")
    wanted = picture(1).reshape(12, 2, 16, 2, 3).mean((1, 3))
    assert np.abs(np.asarray(small[1], float) - wanted).mean() < 3


def test_many_in_flight():
    """Runs independent calls in one program, and programs on many threads."""
    given = packed("PNG", 8)
    one = lambda row, n: images.decode(row, n, height=24, width=32).astype(jnp.int32)
    total = jax.jit(lambda rows, lengths: sum(one(rows[i], lengths[i]) for i in range(8)))
    wanted = own(*given).astype(int).sum(0)
    results = [total(*given) for _ in range(20)]
    for result in results:
        np.testing.assert_array_equal(result, wanted)


def test_vmap():
    rows, lengths = packed("PNG", 6)
    one = lambda row, n: images.decode(row, n, height=24, width=32)
    np.testing.assert_array_equal(jax.vmap(one)(rows, lengths), own(rows, lengths))
    twice = jax.vmap(jax.vmap(one))(rows.reshape(2, 3, -1), lengths.reshape(2, 3))
    np.testing.assert_array_equal(twice.reshape(6, 24, 32, 3), own(rows, lengths))


def test_shard_map():
    given = packed("PNG", 8)
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices()), ("i",)), jax.sharding.PartitionSpec("i")
    some = lambda *given: images.decode(*given, height=24, width=32)
    apart = jax.jit(shard_map(some, mesh=mesh, in_specs=(spec, spec), out_specs=spec))
    np.testing.assert_array_equal(apart(*given), own(*given))


def test_export():
    given = packed("PNG")
    some = jax.jit(lambda *given: images.decode(*given, height=24, width=32))
    allowed = [export.DisabledSafetyCheck.custom_call(images.lib.decode.target)]
    text = export.export(some, disabled_checks=allowed)(*given).serialize()
    np.testing.assert_array_equal(export.deserialize(text).call(*given), own(*given))


# jaxlib 0.4.31 and 0.4.33 report every code as INTERNAL.
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda row, n: (row, n // 2), "(DATA_LOSS|INTERNAL): .*image 2"),
        (lambda row, n: (row, 3), "image 2"),
        (lambda row, n: (row, 0), "image 2"),
        (lambda row, n: (row, len(row) + 1), "(INVALID_ARGUMENT|INTERNAL): .*image 2: a length"),
        (lambda row, n: (row, -1), "(INVALID_ARGUMENT|INTERNAL): .*image 2: a length"),
        (lambda row, n: (np.arange(len(row)).astype(np.uint8), n), "image 2"),
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_broken_files(kind, spoil, told):
    rows, lengths = packed(kind)
    rows[2], lengths[2] = spoil(rows[2], lengths[2])
    with pytest.raises(Exception, match=told):
        jax.block_until_ready(images.decode(rows, lengths, height=24, width=32))


def test_other_sizes():
    with pytest.raises(Exception, match="(INVALID_ARGUMENT|INTERNAL): .*24 pixels high and 32 wide, expected 32 and 32"):
        jax.block_until_ready(images.decode(*packed("PNG"), height=32, width=32))


def test_behaves_as_functions_of_jax_do():
    given = packed("PNG", 2)
    report = xla_ffi.check(images.lib.decode, *given, keep=("bytes", "lengths"), height=24, width=32)
    assert report, report
    assert xla_ffi.check(images.lib.sizes, *given, keep=("bytes", "lengths"))
