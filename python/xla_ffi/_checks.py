"""The checks that :func:`xla_ffi.check` makes in JAX, in a process of their own: ``python -m xla_ffi._checks JOB TOLD``."""

import inspect
import json
import pickle
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np

from . import _attributes, _dtypes, _jax
from ._contract import Contract

#: How often a call is made again, and by how many threads.
_AGAIN, _THREADS = 5, 8
_ROWS = 4
_SIZES = (1, 3, 7, 17, 33)


class Fails(Exception):
    """The handler does not what the check asks of it."""


class Skipped(Exception):
    """The check does not apply."""


class Case:
    """A handler and the call that it is checked with."""

    def __init__(self, handler, args, more, keep=()):
        self.handler, self.spec, self.more = handler, handler.spec, more
        self._args = [np.array(arg) for arg in handler._operands(args)[0]]
        # Of a variadic last operand all.
        names = [arg.name for arg in self.spec.args]
        self._kept = [bool(names) and names[min(index, len(names) - 1)] in keep for index in range(len(self._args))]

    @property
    def args(self):
        """The operands, anew each time: jax may hand out the memory of an array of NumPy, and a wrong handler write to it."""
        return [arg.copy() for arg in self._args]

    def call(self, *args):
        return self.handler(*args, **self.more)

    def results(self, *args):
        """The results of an eager call, as arrays of NumPy."""
        return _arrays(self.call(*map(jnp.asarray, args)))

    def types(self, *args):
        return [jax.ShapeDtypeStruct(np.shape(arg), arg.dtype) for arg in args]

    def raw(self, *args):
        """Calls the target past the loader, which would refuse the operands; the results are those of the case."""
        results = _leaves(jax.eval_shape(self.call, *self.types(*self.args)))
        own = ("attrs", "result_shape_dtypes", "vmap_method", "input_output_aliases", "has_side_effect", "partition_batch", "shapes")
        attrs = {**(self.more.get("attrs") or {}), **{name: value for name, value in self.more.items() if name not in own}}
        cast = _attributes.cast_all(self.spec, attrs)
        return _arrays(plain(self.handler.target, results, [jnp.asarray(arg) for arg in args], cast))

    @property
    def is_deterministic(self):
        return "nondeterministic" not in self.spec.traits

    def rows(self):
        """Each operand ``_ROWS`` times, with other values in each."""
        return [np.stack(each) for each in zip(*map(self.others, range(_ROWS)))]

    def others(self, row):
        """The operands with different values in each row, except those whose values the caller wants kept."""
        return [
            arg if kept else _another(arg, row, np.random.default_rng([row, index]))
            for index, (arg, kept) in enumerate(zip(self.args, self._kept))
        ]

    def dims_of(self):
        """For each operand its dimensions in the contract, where that has one entry an operand, else None.

        A dimension that ``...`` stands for is called ``...``; one of a fixed size is an int.
        """
        entries = Contract(self.spec.shape).args if self.spec.shape else []
        if len(entries) != len(self.args) or any(entry.optional or entry.repeats for entry in entries):
            return None
        named = []
        for entry, arg in zip(entries, self.args):
            at = entry.dims.index("...") if "..." in entry.dims else len(entry.dims)
            more = arg.ndim - len(entry.dims) + 1
            dims = entry.dims[:at] + ("...",) * more + entry.dims[at + 1 :] if at < len(entry.dims) else entry.dims
            if len(dims) != arg.ndim:
                return None
            named.append(dims)
        return named

    def resized(self, name, size):
        """The operands with another size for a name of the contract, at each place where it stands."""
        args = []
        for dims, arg in zip(self.dims_of(), self.args):
            shape = tuple(size if dim == name else length for dim, length in zip(dims, arg.shape))
            args.append(np.resize(arg, shape) if arg.size else np.zeros(shape, arg.dtype))
        return args


def plain(target, results, args, attrs):
    """Calls a target with jax's own function alone."""
    try:
        from jax import ffi
    except ImportError:
        from jax.extend import ffi
    if "input_output_aliases" in inspect.signature(ffi.ffi_call).parameters:
        return ffi.ffi_call(target, tuple(results))(*args, **attrs)
    return ffi.ffi_call(target, tuple(results), *args, **attrs)


def _leaves(out):
    return [] if out is None else list(out) if isinstance(out, (list, tuple)) else [out]


def _arrays(out):
    out = _leaves(out)
    jax.block_until_ready(out)
    return [np.asarray(array) for array in out]


def _another(arg, row, random):
    """The operand in one row of a batch. Each row is drawn independently from the operand's values, and each has its own
    scale if they are floats: a handler that mixes rows could not tell rotations of one row apart from separate rows. Every
    fourth row holds a single value."""
    if not row or not arg.size:
        return arg
    if row % _ROWS == _ROWS - 1 and arg.size > 1:
        return np.full_like(arg, random.choice(arg.ravel()))
    drawn = random.choice(arg.ravel(), arg.size).reshape(arg.shape)
    return (drawn * 2.0 ** -(row % _ROWS)).astype(arg.dtype) if _dtypes_is_float(arg.dtype) else drawn


def _dtypes_is_float(dtype):
    return jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.complexfloating)


def _same(got, wanted, what):
    """Bit for bit."""
    for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Fails(f"{what}: result {index} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}")
        if a.tobytes() != b.tobytes():
            raise Fails(f"{what}: result {index} differs, {_where(a, b)}")


def _close(got, wanted, what):
    """As close as another order of operations may bring it."""
    for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Fails(f"{what}: result {index} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}")
        if _dtypes_is_float(a.dtype):
            tolerance = 16 * float(jnp.finfo(a.dtype).eps)
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            alike = np.allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            alike = np.array_equal(a, b)
        if not alike:
            raise Fails(f"{what}: result {index} differs, {_where(a, b)}")


def _where(got, wanted):
    different = np.flatnonzero([x.tobytes() != y.tobytes() for x, y in zip(got.ravel(), wanted.ravel())])
    first = np.unravel_index(different[0], got.shape)
    place = f"[{', '.join(str(int(at)) for at in first)}]"
    return f"{len(different)} of {got.size} elements, first {place}, which is {got[first]}, expected {wanted[first]}"


# ---- the checks ----------------------------------------------------------------------------------


def runs(case):
    """The call as it is given."""
    try:
        got = case.results(*case.args)
    except Exception as error:
        raise Fails(f"the call fails: {_first_line(error)}") from error
    rets = case.spec.rets
    names = [rets[min(index, len(rets) - 1)].name for index in range(len(got))]
    return ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in zip(names, got)) or "no results"


def jit(case):
    """As eagerly."""
    wanted = case.results(*case.args)
    compare = _same if case.is_deterministic else _shapes
    compare(_arrays(jax.jit(case.call)(*case.args)), wanted, "under jit")
    return "as eagerly"


def scan(case):
    """As eagerly, too."""
    wanted = case.results(*case.args)
    step = lambda carry, _: (carry, _leaves(case.call(*map(jnp.asarray, case.args))))
    _, got = jax.jit(lambda: jax.lax.scan(step, 0, None, length=3))()
    compare = _same if case.is_deterministic else _shapes
    for index in range(3):
        compare([array[index] for array in _arrays(got)], wanted, f"step {index} of scan")
    return "as eagerly"


def vmap(case):
    """All operands batched, then the first alone."""
    if not case.args:
        raise Skipped("no operands")
    if not case.is_deterministic:
        raise Skipped("the manifest says nondeterministic")
    rows = case.rows()
    if case.spec.batch == "none":
        try:
            _arrays(jax.vmap(case.call)(*rows))
        except Exception:
            return "refused, as declared"
        raise Fails('the manifest says batch = "none", but vmap goes through')
    loop = [case.results(*(row[index] for row in rows)) for index in range(_ROWS)]
    _close(_arrays(jax.jit(jax.vmap(case.call))(*rows)), [np.stack(each) for each in zip(*loop)], "vmap against a loop")
    if len(rows) > 1:
        loop = [case.results(rows[0][index], *case.args[1:]) for index in range(_ROWS)]
        axes = (0, *[None] * (len(rows) - 1))
        got = _arrays(jax.vmap(case.call, in_axes=axes)(rows[0], *case.args[1:]))
        _close(got, [np.stack(each) for each in zip(*loop)], "vmap over the first operand against a loop")
    return f"{_ROWS} rows as a loop"


def shard_map(case):
    """A row a device."""
    if not case.args or case.spec.batch == "none":
        raise Skipped("no operands" if not case.args else 'the manifest says batch = "none"')
    if not case.is_deterministic:
        raise Skipped("the manifest says nondeterministic")
    if len(jax.devices()) < _ROWS:
        raise Skipped(f"{len(jax.devices())} devices, {_ROWS} are needed")
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
    _close(_arrays(got), wanted, "shard_map against a loop")
    return f"a row on each of {_ROWS} devices"


def export(case):
    """Serialised, read back and called."""
    try:
        from jax import export as exporting
    except ImportError as error:
        raise Skipped(f"jax.export cannot be imported: {error}") from error
    allowed = [exporting.DisabledSafetyCheck.custom_call(case.handler.target)]
    exported = exporting.export(jax.jit(case.call), disabled_checks=allowed)(*case.types(*case.args))
    try:
        again, whole = exporting.deserialize(exported.serialize()), True
    except ImportError:
        # jax serialises with a package that it does not bring.
        again, whole = exported, False
    compare = _same if case.is_deterministic else _shapes
    compare(_arrays(again.call(*case.args)), case.results(*case.args), "after jax.export")
    if not whole:
        raise Skipped("exported and called, with the same results, but the round trip needs the package flatbuffers")
    return "the round trip"


def gradient(case):
    """What the manifest declares, against differences."""
    from jax.test_util import check_grads

    declared = case.spec.gradient
    if declared is None:
        raise Skipped("none is declared")
    at = [index for index, arg in enumerate(case.args) if _dtypes_is_float(arg.dtype)]
    if not at:
        raise Skipped("no operand is differentiable")

    def of(*differentiable):
        args = list(map(jnp.asarray, case.args))
        for index, value in zip(at, differentiable):
            args[index] = value
        return [out for out in _leaves(case.call(*args)) if _dtypes_is_float(out.dtype)]

    forward = declared.jvp or declared.linear
    reverse = declared.vjp or declared.transpose or declared.linear
    modes = [mode for mode, there in (("fwd", forward), ("rev", reverse)) if there]
    try:
        check_grads(of, tuple(jnp.asarray(case.args[index]) for index in at), order=1, modes=modes)
    except Exception as error:
        # Which derivative it is, how much it is off, and both values are on lines of their own.
        told = "\n".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
        raise Fails(f"check_grads ({', '.join(modes)}): {told}") from error
    return f"check_grads, {' and '.join(modes)}"


def operands(case):
    """They are as they were."""
    arrays = [jnp.array(arg) for arg in case.args]
    before = [np.array(array) for array in arrays]
    jax.block_until_ready(_leaves(jax.jit(case.call)(*arrays)))
    for index, (array, was) in enumerate(zip(arrays, before)):
        if np.asarray(array).tobytes() != was.tobytes():
            name = case.spec.args[min(index, len(case.spec.args) - 1)].name
            raise Fails(f"the handler changes its operand {name}: {_where(np.asarray(array), was)}")
    return "as they were"


def repeats(case):
    """The same each time."""
    if not case.is_deterministic:
        raise Skipped("the manifest says nondeterministic")
    call = jax.jit(case.call)
    wanted = _arrays(call(*case.args))
    for turn in range(_AGAIN):
        _same(_arrays(call(*case.args)), wanted, f"call {turn + 2} of the same")
    return f"the same {_AGAIN + 1} times"


def threads(case):
    """The same from many threads at once, each with operands of its own."""
    if not case.is_deterministic:
        raise Skipped("the manifest says nondeterministic")
    call = jax.jit(case.call)
    own = [case.others(row) for row in range(_THREADS)]
    wanted = [_arrays(call(*args)) for args in own]
    failures, gate = [], threading.Barrier(_THREADS)

    def some(row):
        try:
            gate.wait()
            for _ in range(4 * _AGAIN):
                _same(_arrays(call(*own[row])), wanted[row], f"one of {_THREADS} threads")
        except Exception as error:
            failures.append(error)

    running = [threading.Thread(target=some, args=(row,)) for row in range(_THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise failures[0] if isinstance(failures[0], Fails) else Fails(_first_line(failures[0]))
    return f"the same from {_THREADS} threads"


def _floats_of(case):
    floats = [index for index, arg in enumerate(case.args) if _dtypes_is_float(arg.dtype)]
    at = [index for index in floats if case.args[index].size]
    if not at:
        raise Skipped("all operands of float types are empty" if floats else "no operand is of a float type")
    return at


def nan(case):
    """A NaN in an operand is in some result."""
    at = _floats_of(case)
    if not any(_dtypes_is_float(result.dtype) for result in case.results(*case.args)):
        raise Skipped("no result is of a float type")
    for index in at:
        for place in sorted({0, case.args[index].size // 2, case.args[index].size - 1}):
            args = [np.array(arg) for arg in case.args]
            args[index].reshape(-1)[place] = np.nan
            got = [array for array in case.results(*args) if _dtypes_is_float(array.dtype)]
            if not any(np.isnan(array.astype(np.complex128)).any() for array in got):
                name = case.spec.args[min(index, len(case.spec.args) - 1)].name
                raise Fails(f"a NaN in element {place} of {name} reaches no result: skip=('NaN',) where that is meant")
    return "it reaches a result"


def infinity(case):
    """Infinities crash nothing, and give the same twice."""
    for index in _floats_of(case):
        for value in (np.inf, -np.inf):
            args = [np.array(arg) for arg in case.args]
            args[index].reshape(-1)[0] = value
            first = _or_error(case, args)
            if case.is_deterministic and isinstance(first, list):
                _same(_or_error(case, args), first, f"with {value}, once more")
    return "no harm"


def _or_error(case, args):
    """The results, or the error where the handler or the loader refuses."""
    try:
        return case.results(*args)
    except Exception as error:
        if "INTERNAL" in str(error) and "panicked" in str(error):
            raise Fails(f"shapes {[arg.shape for arg in args]}: {_first_line(error)}") from error
        return error


def _names(case):
    named = case.dims_of()
    if named is None:
        raise Skipped("its shape contract has optional or repeated operands" if case.spec.shape else "it has no shape contract")
    names = sorted({dim for dims in named for dim in dims if isinstance(dim, str) and dim != "_"})
    if not names:
        raise Skipped("no dimension is free")
    return names


def zero_sized(case):
    """Each dimension of the contract empty: results or an error."""
    names, refused = _names(case), 0
    for name in names:
        refused += isinstance(_or_error(case, case.resized(name, 0)), Exception)
    return f"{len(names)} dimensions, {refused} refused"


def odd_sizes(case):
    """Sizes that no vector is long: results, the same twice, or an error."""
    names, refused = _names(case), 0
    for name in names:
        for size in _SIZES:
            args = case.resized(name, size)
            first = _or_error(case, args)
            refused += isinstance(first, Exception)
            if case.is_deterministic and isinstance(first, list):
                _same(_or_error(case, args), first, f"{name} = {size}, once more")
    return f"{', '.join(map(str, _SIZES))} for each of {len(names)} dimensions, {refused} refused"


def wrong_types(case):
    """An operand's bits as another type of the same size: the handler itself has to refuse."""
    tried = 0
    for index, arg in enumerate(case.args):
        declared = case.spec.args[min(index, len(case.spec.args) - 1)]
        other = next((kind for kind in _of_size(arg.dtype) if _dtypes.of(np.dtype(kind)) not in (declared.dtypes or ())), None)
        if declared.dtypes is None or other is None:
            continue
        args = list(case.args)
        args[index] = np.ascontiguousarray(arg).reshape(arg.shape).view(other)
        tried += 1
        _refused(case, args, f"{declared.name} of {other} is taken for {'|'.join(declared.dtypes)}")
    if not tried:
        every = all(arg.dtypes is None for arg in case.spec.args)
        raise Skipped("every type is accepted" if every else "jax has no other type of the same size for any operand")
    return f"{tried} refused"


def _of_size(dtype):
    """Types with as many bits."""
    sizes = {1: ("int8", "uint8"), 2: ("int16", "uint16"), 4: ("int32", "float32"), 8: ("int64", "float64")}
    kinds = [kind for kind in sizes.get(dtype.itemsize, ()) if np.dtype(kind) != dtype and dtype.kind in "biufcV"]
    return kinds if dtype.itemsize < 8 or _jax.has_x64() else []


def wrong_ranks(case):
    """A dimension more, where the rank is fixed: the handler itself has to refuse."""
    named, tried = case.dims_of(), 0
    for index, arg in enumerate(case.args):
        declared = case.spec.args[min(index, len(case.spec.args) - 1)]
        fixed = declared.rank is not None or (named is not None and "..." not in case.spec.shape)
        if not fixed:
            continue
        args = list(case.args)
        args[index] = arg[None]
        tried += 1
        _refused(case, args, f"{declared.name} of rank {arg.ndim + 1} is taken for one of rank {arg.ndim}")
    if not tried:
        raise Skipped("no rank is fixed")
    return f"{tried} refused"


def _refused(case, args, what):
    try:
        case.raw(*case.args)
    except Exception as error:
        raise Skipped(f"jax's own function cannot make this call: {_first_line(error)}") from error
    try:
        case.raw(*args)
    except Exception:
        return
    raise Fails(what)


def _shapes(got, wanted, what):
    if [(a.shape, a.dtype) for a in got] != [(b.shape, b.dtype) for b in wanted]:
        raise Fails(f"{what}: the results are of other types")


def _first_line(error):
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


CHECKS = {
    "runs": runs, "jit": jit, "scan": scan, "vmap": vmap, "shard_map": shard_map, "export": export, "gradient": gradient,
    "operands": operands, "repeats": repeats, "threads": threads, "NaN": nan, "infinity": infinity, "zero-sized": zero_sized,
    "odd sizes": odd_sizes, "wrong types": wrong_types, "wrong ranks": wrong_ranks,
}  # fmt: skip


def main():
    job_file, told_file = sys.argv[1:]
    with open(job_file, "rb") as file:
        sys.path += [each for each in pickle.load(file) if each not in sys.path]
        try:
            job = pickle.load(file)
        except (AttributeError, ImportError, pickle.UnpicklingError) as error:
            with open(told_file, "a", encoding="utf-8") as told:
                told.write(json.dumps({"unreadable": str(error)}) + "\n")
            sys.exit(1)
    jax.config.update("jax_enable_x64", job["x64"])
    case = Case(job["handler"], job["args"], job["more"], job["keep"])
    with open(told_file, "a", encoding="utf-8") as told:

        def tell(**entry):
            told.write(json.dumps(entry) + "\n")
            told.flush()

        for name in job["names"]:
            tell(begins=name)
            try:
                verdict, text = "ok", CHECKS[name](case)
            except Fails as why:
                verdict, text = "FAIL", str(why)
            except Skipped as why:
                verdict, text = "skipped", str(why)
            except Exception as error:
                verdict, text = "FAIL", f"{type(error).__name__}: {_first_line(error)}"
            tell(name=name, verdict=verdict, text=text)
            if name == "runs" and verdict == "FAIL":
                # Nothing else can be said of a call that does not go through.
                for other in job["names"]:
                    if other != name:
                        tell(name=other, verdict="skipped", text="the call fails")
                break


if __name__ == "__main__":
    main()
