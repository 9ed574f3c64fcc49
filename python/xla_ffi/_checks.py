"""The checks of :func:`xla_ffi.check` in JAX, run in their own process: ``python -m xla_ffi._checks JOB RESULTS``."""

import json
import pickle
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np

from . import _values

#: Number of repeated calls, and number of threads.
_AGAIN, _THREADS = 5, 8
_ROWS = 4


class Fails(Exception):
    """Raised if the handler fails the check."""


class Skipped(Exception):
    """Raised if the check does not apply to the handler."""


class Case:
    """A handler, and the operands and attributes of the call to check."""

    def __init__(self, handler, args, more, keep=()):
        self.handler, self.spec, self.more = handler, handler.spec, more
        self._args = [np.array(arg) for arg in handler._operands(args)[0]]
        # The name of a variadic last operand refers to all its arrays.
        names = [arg.name for arg in self.spec.args]
        self._kept = [bool(names) and names[min(index, len(names) - 1)] in keep for index in range(len(self._args))]

    @property
    def args(self):
        """New copies of the operands. A wrong handler may write to the memory of a NumPy array that JAX shares."""
        return [arg.copy() for arg in self._args]

    def call(self, *args):
        return self.handler(*args, **self.more)

    def results(self, *args):
        """Returns the results of an eager call as NumPy arrays."""
        return _arrays(self.call(*map(jnp.asarray, args)))

    def types(self, *args):
        return [jax.ShapeDtypeStruct(np.shape(arg), arg.dtype) for arg in args]

    @property
    def is_deterministic(self):
        return "nondeterministic" not in self.spec.traits

    def rows(self):
        """Returns each operand stacked ``_ROWS`` times, with different values per row."""
        return [np.stack(each) for each in zip(*map(self.others, range(_ROWS)))]

    def others(self, row):
        """Returns the operands for one row, with different values except in operands named by ``keep``."""
        return [
            arg if kept else _another(arg, row, np.random.default_rng([row, index]))
            for index, (arg, kept) in enumerate(zip(self.args, self._kept))
        ]

def _leaves(out):
    return [] if out is None else list(out) if isinstance(out, (list, tuple)) else [out]


def _arrays(out):
    out = _leaves(out)
    jax.block_until_ready(out)
    return [np.asarray(array) for array in out]


def _another(arg, row, random):
    """Returns the operand for one row of a batch.

    Elements are drawn at random from the operand's elements, and floats have a different scale per row. If all rows
    were rotations of one row, a handler that mixes rows would remain undetected. Every fourth row holds a single value.
    """
    if not row or not arg.size:
        return arg
    if row % _ROWS == _ROWS - 1 and arg.size > 1:
        return np.full_like(arg, random.choice(arg.ravel()))
    drawn = random.choice(arg.ravel(), arg.size).reshape(arg.shape)
    return (drawn * 2.0 ** -(row % _ROWS)).astype(arg.dtype) if _is_float(arg.dtype) else drawn


def _is_float(dtype):
    return jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.complexfloating)


def _bits(a, b):
    return a.tobytes() == b.tobytes()


def _nearly(a, b):
    """Returns true if two arrays are equal up to rounding errors from a different order of operations."""
    if not _is_float(a.dtype):
        return np.array_equal(a, b)
    tolerance = 16 * float(jnp.finfo(a.dtype).eps)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return np.allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)


def _same(got, wanted, what, alike=_bits):
    for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Fails(f"{what}: result {index}: expected {b.dtype}{list(b.shape)}, got {a.dtype}{list(a.shape)}")
        if not alike(a, b):
            raise Fails(f"{what}: result {index} differs in {_where(a, b)}")


def _close(got, wanted, what):
    _same(got, wanted, what, _nearly)


def _where(got, wanted):
    different = np.flatnonzero([x.tobytes() != y.tobytes() for x, y in zip(got.ravel(), wanted.ravel())])
    first = np.unravel_index(different[0], got.shape)
    place = f"[{', '.join(str(int(at)) for at in first)}]"
    return f"{len(different)} of {got.size} elements, the first at {place}: expected {wanted[first]}, got {got[first]}"


# ---- the checks ----------------------------------------------------------------------------------


def runs(case):
    """Makes the call once."""
    try:
        got = case.results(*case.args)
    except Exception as error:
        raise Fails(f"the call fails: {_values.first_line(error)}") from error
    rets = case.spec.rets
    names = [rets[min(index, len(rets) - 1)].name for index in range(len(got))]
    return ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in zip(names, got)) or "no results"


def jit(case):
    """Compares jit and scan with an eager call."""
    wanted = case.results(*case.args)
    compare = _same if case.is_deterministic else _shapes
    compare(_arrays(jax.jit(case.call)(*case.args)), wanted, "under jit")
    step = lambda carry, _: (carry, _leaves(case.call(*map(jnp.asarray, case.args))))
    _, got = jax.jit(lambda: jax.lax.scan(step, 0, None, length=3))()
    for index in range(3):
        compare([array[index] for array in _arrays(got)], wanted, f"step {index} of scan")
    return "the same results as an eager call"


def vmap(case):
    """Compares vmap with a loop, first with all operands batched, then with only the first operand batched."""
    if not case.args:
        raise Skipped("the call has no operands")
    if not case.is_deterministic:
        raise Skipped("the manifest declares the handler nondeterministic")
    rows = case.rows()
    if case.spec.batch == "none":
        try:
            _arrays(jax.vmap(case.call)(*rows))
        except Exception:
            return "refused, as declared"
        raise Fails('the manifest declares batch = "none", but vmap succeeds')
    loop = [case.results(*(row[index] for row in rows)) for index in range(_ROWS)]
    _close(_arrays(jax.jit(jax.vmap(case.call))(*rows)), [np.stack(each) for each in zip(*loop)], "vmap compared with a loop")
    if len(rows) > 1:
        loop = [case.results(rows[0][index], *case.args[1:]) for index in range(_ROWS)]
        axes = (0, *[None] * (len(rows) - 1))
        got = _arrays(jax.vmap(case.call, in_axes=axes)(rows[0], *case.args[1:]))
        _close(got, [np.stack(each) for each in zip(*loop)], "vmap over the first operand compared with a loop")
    return f"{_ROWS} rows in one call equal a call per row"


def shard_map(case):
    """Compares shard_map, one row per device, with a loop."""
    if not case.args or case.spec.batch == "none":
        raise Skipped("the call has no operands" if not case.args else 'the manifest declares batch = "none"')
    if not case.is_deterministic:
        raise Skipped("the manifest declares the handler nondeterministic")
    if len(jax.devices()) < _ROWS:
        raise Skipped(f"needs {_ROWS} devices, got {len(jax.devices())}")
    mapped = getattr(jax, "shard_map", None)
    if mapped is None:
        from jax.experimental.shard_map import shard_map as mapped
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:_ROWS]), ("row",))
    spec = jax.sharding.PartitionSpec("row")
    rows = case.rows()
    inner = lambda *blocks: jax.vmap(case.call)(*blocks)
    wanted = [np.stack(each) for each in zip(*(case.results(*(row[index] for row in rows)) for index in range(_ROWS)))]
    outs = jax.tree_util.tree_map(lambda _: spec, jax.eval_shape(jax.vmap(case.call), *case.types(*rows)))
    got = jax.jit(mapped(inner, mesh=mesh, in_specs=tuple(spec for _ in rows), out_specs=outs))(*rows)
    _close(_arrays(got), wanted, "shard_map compared with a loop")
    return f"one row on each of {_ROWS} devices"


def export(case):
    """Exports the call, serializes it, reads it back and calls it."""
    try:
        from jax import export as exporting
    except ImportError as error:
        raise Skipped(f"jax.export cannot be imported: {error}") from error
    allowed = [exporting.DisabledSafetyCheck.custom_call(case.handler.target)]
    exported = exporting.export(jax.jit(case.call), disabled_checks=allowed)(*case.types(*case.args))
    try:
        again = exporting.deserialize(exported.serialize())
    except ImportError as error:
        raise Skipped("the package flatbuffers is not installed") from error
    compare = _same if case.is_deterministic else _shapes
    compare(_arrays(again.call(*case.args)), case.results(*case.args), "after jax.export")
    return "the same results after export and import"


def gradient(case):
    """Compares the declared gradient with finite differences."""
    from jax.test_util import check_grads

    declared = case.spec.gradient
    if declared is None:
        raise Skipped("the manifest declares no gradient")
    at = [index for index, arg in enumerate(case.args) if _is_float(arg.dtype)]
    if not at:
        raise Skipped("no operand is differentiable")

    def of(*differentiable):
        args = list(map(jnp.asarray, case.args))
        for index, value in zip(at, differentiable):
            args[index] = value
        return [out for out in _leaves(case.call(*args)) if _is_float(out.dtype)]

    forward = declared.jvp or declared.linear
    reverse = declared.vjp or declared.transpose or declared.linear
    modes = [mode for mode, there in (("fwd", forward), ("rev", reverse)) if there]
    try:
        check_grads(of, tuple(jnp.asarray(case.args[index]) for index in at), order=1, modes=modes)
    except Exception as error:
        # The error message has the derivative, the error and both values on separate lines.
        text = "\n".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
        raise Fails(f"check_grads ({', '.join(modes)}): {text}") from error
    return f"check_grads passes in modes {' and '.join(modes)}"


def operands(case):
    """Compares the operands before and after the call."""
    arrays = [jnp.array(arg) for arg in case.args]
    before = [np.array(array) for array in arrays]
    jax.block_until_ready(_leaves(jax.jit(case.call)(*arrays)))
    for index, (array, was) in enumerate(zip(arrays, before)):
        if np.asarray(array).tobytes() != was.tobytes():
            name = case.spec.args[min(index, len(case.spec.args) - 1)].name
            raise Fails(f"the handler changes its operand `{name}` in {_where(np.asarray(array), was)}")
    return "unchanged"


def repeats(case):
    """Checks that repeated calls return equal results."""
    if not case.is_deterministic:
        raise Skipped("the manifest declares the handler nondeterministic")
    call = jax.jit(case.call)
    wanted = _arrays(call(*case.args))
    for turn in range(_AGAIN):
        _same(_arrays(call(*case.args)), wanted, f"call {turn + 2} with the same operands")
    return f"the same results in {_AGAIN + 1} calls"


def threads(case):
    """Compares calls from several threads with single-threaded calls. Each thread has its own operands."""
    if not case.is_deterministic:
        raise Skipped("the manifest declares the handler nondeterministic")
    call = jax.jit(case.call)
    own = [case.others(row) for row in range(_THREADS)]
    wanted = [_arrays(call(*args)) for args in own]
    failures, gate = [], threading.Barrier(_THREADS)

    def calls(row):
        try:
            gate.wait()
            for _ in range(4 * _AGAIN):
                _same(_arrays(call(*own[row])), wanted[row], f"a call from one of {_THREADS} threads")
        except Exception as error:
            failures.append(error)

    running = [threading.Thread(target=calls, args=(row,)) for row in range(_THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise failures[0] if isinstance(failures[0], Fails) else Fails(_values.first_line(failures[0]))
    return f"the same results from {_THREADS} threads"


def nan(case):
    """Checks that a NaN in an operand reaches a result."""
    at = [index for index, arg in enumerate(case.args) if _is_float(arg.dtype) and arg.size]
    if not at or not any(_is_float(result.dtype) for result in case.results(*case.args)):
        raise Skipped("no operand or no result has a float type")
    for index in at:
        for place in sorted({0, case.args[index].size // 2, case.args[index].size - 1}):
            args = [np.array(arg) for arg in case.args]
            args[index].reshape(-1)[place] = np.nan
            got = [array for array in case.results(*args) if _is_float(array.dtype)]
            if not any(np.isnan(array.astype(np.complex128)).any() for array in got):
                name = case.spec.args[min(index, len(case.spec.args) - 1)].name
                raise Fails(f"a NaN in element {place} of `{name}` reaches no result; if this is intended, pass skip=['nan']")
    return "a NaN in an operand reaches a result"


def _types(arrays):
    return [f"{array.dtype}{list(array.shape)}" for array in arrays]


def _shapes(got, wanted, what):
    if _types(got) != _types(wanted):
        raise Fails(f"{what}: expected results {_types(wanted)}, got {_types(got)}")


CHECKS = {
    "runs": runs, "jit": jit, "vmap": vmap, "shard_map": shard_map, "export": export, "gradient": gradient,
    "operands": operands, "repeats": repeats, "threads": threads, "nan": nan,
}  # fmt: skip


def main():
    job_file, results_file = sys.argv[1:]
    with open(job_file, "rb") as file:
        sys.path += [each for each in pickle.load(file) if each not in sys.path]
        job = pickle.load(file)
    jax.config.update("jax_enable_x64", job["x64"])
    case = Case(job["handler"], job["args"], job["more"], job["keep"])
    with open(results_file, "a", encoding="utf-8") as results:

        def report(**entry):
            results.write(json.dumps(entry) + "\n")
            results.flush()

        for name in job["names"]:
            report(starts=name)
            try:
                status, text = "passed", CHECKS[name](case)
            except Fails as why:
                status, text = "failed", str(why)
            except Skipped as why:
                status, text = "skipped", str(why)
            except Exception as error:
                status, text = "failed", f"{type(error).__name__}: {_values.first_line(error)}"
            report(name=name, status=status, text=text)
            if name == "runs" and status == "failed":
                # The other checks need a successful call.
                for other in job["names"]:
                    if other != name:
                        report(name=other, status="skipped", text="the call fails")
                break


if __name__ == "__main__":
    main()
