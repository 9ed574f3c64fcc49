"""What a handler's manifest says of other handlers of its library: which compute its derivatives, which batches it.

All is checked when the library is loaded: names, and whether the signatures fit.
"""

import dataclasses
from typing import Any

from . import _attributes, _signature
from ._errors import ManifestError

_FLOATS = ("F", "BF", "C")


@dataclasses.dataclass(frozen=True)
class Other:
    """Batching by another handler, which takes all operands with one more leading dimension; ``spec`` is that of the
    handler which is batched, ``said`` what its caller said of the call: keywords."""

    handler: Any
    spec: Any = dataclasses.field(compare=False)
    said: tuple = ()

    def __repr__(self):
        return f"by {self.handler.__qualname__}"

    def attributes(self, attributes):
        """The attributes for the other handler, of those of a call."""
        return passed_on(self.spec, self.handler.spec, attributes, self.handler.spec.open_attrs)


class Gradient:
    """The handlers that a handler's gradient names, as objects. Two are equal when they are the same."""

    def __init__(self, handler, found):
        gradient = handler.spec.gradient
        self.name = handler.__qualname__
        self.linear = gradient.linear
        self.residuals = gradient.residuals
        self.vjp, self.forward, self.jvp, self.transpose = (
            found.get(getattr(gradient, key)) for key in ("vjp", "forward", "jvp", "transpose")
        )
        #: Names of the results that ``forward`` has besides the handler's own.
        self.more = ()
        if self.forward is not None:
            self.more = tuple(ret.name for ret in self.forward.spec.rets[len(handler.spec.rets) :])
        self._own = handler

    def __repr__(self):
        return _signature.gradient(self._own.spec.gradient)

    def call(self, which, attributes, args, results, **options):
        """Calls one of the handlers, ``"linear"`` being the handler itself. Returns a sequence.

        ``results`` are the types of the results as ``(shape, dtype)``, None for a token; ``forward`` has further ones.
        ``options`` are further keywords of the call.
        """
        handler = self._own if which == "linear" else getattr(self, which)
        given = [self._own._token_type() if result is None else self._own._array_type(*result) for result in results]
        if which == "forward":
            # What the caller said of the handler's own results holds; the declaration says the rest.
            given += [None] * len(self.more)
        out = handler(*args, attrs=passed_on(self._own.spec, handler.spec, attributes), result_shape_dtypes=given, **options)
        return out if isinstance(out, tuple) else () if out is None else (out,)

    def saved(self, args, rets, differentiable):
        """Which of a call's operands its linear map needs: indices into the arguments and then the results.

        ``args`` and ``rets`` are the operands' names, ``differentiable`` has a bool for each argument.
        """
        names = [(name, True) for name in args] + [(name, False) for name in (*rets, *self.more)]
        constant = [i for i, varies in enumerate(differentiable) if not varies]
        if self.residuals is None:
            found = constant if self.linear else list(range(len(args)))
        else:
            found = []
            for name in self.residuals:
                # The argument where an argument and a result share a name.
                is_argument = (name, True) in names
                found += [i for i, entry in enumerate(names) if entry == (name, is_argument)]
        return tuple(found + (constant if self.linear else []))


def passed_on(spec, to, attributes, undeclared=False):
    """The attributes of a call that another handler declares, with ``undeclared`` all; where the call has none, this
    handler's default. So it is with the members of dictionaries. What is absent in the one would be the other's default
    there: a TypeError."""
    given = _attributes.with_defaults(spec, {name: frozen.value for name, frozen in attributes})
    _refuse_other_defaults(spec, to, given, None)
    return _known_to(to, given, None, undeclared)


def _refuse_other_defaults(spec, to, given, inside):
    theirs = {attr.name: attr for attr in to.attrs if attr.inside == inside}
    for attr in spec.attrs:
        other = theirs.get(attr.name)
        if attr.inside != inside or other is None:
            continue
        if inside is None and isinstance(given.get(attr.name), dict):
            _refuse_other_defaults(spec, to, given[attr.name], attr.name)
        elif attr.name not in given and (other.default is not None or not other.optional):
            where, how = (f" of {inside}", f"it in {inside}=") if inside else ("", f"{attr.name}=")
            why = f"takes it for {other.default!r}" if other.optional else "needs it"
            raise TypeError(
                f"{spec.library}.{spec.name}: the call leaves out the attribute {attr.name!r}{where}, which has no literal default here, and "
                f"{to.name}, called in its place, {why}: give {how} in the call"
            )


def _known_to(to, given, inside, undeclared):
    declared = {attr.name for attr in to.attrs if attr.inside == inside}
    if inside is not None and not declared:
        return given  # a dictionary whose members nobody declares
    return {
        name: _known_to(to, value, name, undeclared) if inside is None and isinstance(value, dict) else value
        for name, value in given.items()
        if undeclared or name in declared
    }


def resolve(path, handlers):
    """Tells each of a library's handlers (by name) what its manifest says of the others."""
    for handler in handlers.values():
        spec = handler.spec
        if isinstance(spec.batch, dict):
            name = spec.batch["handler"]
            other = _named(path, spec, handlers, "batch", name)
            problem = _mismatch(spec.args, other.spec.args, "argument", 1)
            problem = problem or _mismatch(spec.rets, other.spec.rets, "result", 1)
            problem = problem or _missing(spec, other.spec)
            if problem:
                raise ManifestError(f"{path}: handler {spec.name!r} is batched by {name!r}, but {problem}")
            handler.batch = Other(other, spec)
        if spec.gradient is not None:
            handler.gradient = _gradient(path, handler, handlers)


def _named(path, spec, handlers, key, name):
    if name not in handlers:
        raise ManifestError(
            f"{path}: handler {spec.name!r} says {key} = {name!r}, but the library has no such handler; "
            f"it has {', '.join(sorted(handlers))}"
        )
    return handlers[name]


def _gradient(path, handler, handlers):
    spec, gradient = handler.spec, handler.spec.gradient
    names = {key: getattr(gradient, key) for key in ("vjp", "forward", "jvp", "transpose") if getattr(gradient, key) is not None}
    found = {name: _named(path, spec, handlers, key, name) for key, name in names.items()}
    result = Gradient(handler, found)
    args, rets = spec.args, spec.rets
    more = () if result.forward is None else result.forward.spec.rets[len(rets) :]
    if not any(map(_may_vary, args)) or not any(map(_may_vary, rets)):
        side = "argument" if not any(map(_may_vary, args)) else "result"
        raise ManifestError(f"{path}: handler {spec.name!r} has a gradient, but no {side} of a float or complex type")
    if gradient.residuals is None:
        saved = [arg for arg in args if not gradient.linear or not _may_vary(arg)]
    else:
        known = {operand.name: operand for operand in (*more, *rets, *args)}
        unknown = [name for name in gradient.residuals if name not in known]
        if unknown:
            raise ManifestError(
                f"{path}: handler {spec.name!r} has the residual {unknown[0]!r}, but its operands are {', '.join(known)}"
            )
        saved = [known[name] for name in gradient.residuals]
    linear_args, linear_rets = [arg for arg in args if _may_vary(arg)], [ret for ret in rets if _may_vary(ret)]
    takes = {
        "vjp": ([*saved, *linear_rets], linear_args),
        "transpose": ([*saved, *linear_rets], linear_args),
        "jvp": ([*saved, *linear_args], linear_rets),
        "forward": (args, [*rets, *more]),
    }
    certain = all(_is_certain(operand) for operand in (*args, *rets))
    for key, name in names.items():
        other = found[name].spec
        problem = _missing(spec, other)
        if certain or key == "forward":
            wanted, given = takes[key]
            problem = problem or _mismatch(wanted, other.args, "argument") or _mismatch(given, other.rets, "result")
        if problem:
            raise ManifestError(f"{path}: handler {spec.name!r} says {key} = {name!r}, but {problem}")
    return result


def _may_vary(operand):
    """Whether an operand may be of a type that has tangents."""
    return not operand.token and (operand.dtypes is None or any(name.startswith(_FLOATS) for name in operand.dtypes))


def _is_certain(operand):
    """Whether a declaration alone says how many tangents belong to it."""
    if operand.variadic or operand.optional:
        return False
    kinds = {name.startswith(_FLOATS) for name in operand.dtypes or ()}
    return operand.token or len(kinds) == 1


def _mismatch(wanted, given, noun, deeper=0):
    """Why operands do not fit, ``deeper`` being how many more dimensions they have, tokens apart; the names are the author's business."""
    if any(operand.variadic or operand.optional for operand in (*wanted, *given)):
        return None
    if len(wanted) != len(given):
        names = ", ".join(operand.name for operand in wanted) or "none"
        return f"that has {len(given)} {noun}s where {len(wanted)} are due ({names})"
    for want, have in zip(wanted, given):
        if want.token != have.token:
            return f"its {noun} {have.name!r} is for {want.name!r}, and only one of them is a token"
        if want.dtypes is not None and have.dtypes is not None and not set(want.dtypes) & set(have.dtypes):
            return f"its {noun} {have.name!r} ({'|'.join(have.dtypes)}) is for {want.name!r} ({'|'.join(want.dtypes)})"
        rank = want.rank if want.rank is None or want.token else want.rank + deeper
        if rank is not None and have.rank not in (None, rank):
            return f"its {noun} {have.name!r} of rank {have.rank} is for {want.name!r}, here of rank {rank}"
    return None


def _missing(spec, other):
    mine = {attr.name for attr in spec.attrs if attr.inside is None}
    missing = [attr.name for attr in other.attrs if attr.inside is None and not attr.optional and attr.name not in mine]
    return f"that needs the attribute {missing[0]!r}, which the call does not have" if missing and not spec.open_attrs else None
