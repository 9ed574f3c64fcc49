"""What a handler's manifest says of other handlers of its library: which compute its derivatives, which batches it.

The names are checked when the library is loaded; whether the signatures fit, ``xla-ffi doctor`` judges.
"""

import dataclasses
from typing import Any

from . import _attributes, _signature
from ._errors import ManifestError


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
    handler's default. So it is with the members of dictionaries."""
    given = _attributes.with_defaults(spec, {name: frozen.value for name, frozen in attributes})
    return _known_to(to, given, None, undeclared)


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
            handler.batch = Other(_named(path, spec, handlers, "batch", spec.batch["handler"]), spec)
        if spec.gradient is not None:
            names = {key: getattr(spec.gradient, key) for key in ("vjp", "forward", "jvp", "transpose")}
            found = {name: _named(path, spec, handlers, key, name) for key, name in names.items() if name is not None}
            handler.gradient = Gradient(handler, found)


def _named(path, spec, handlers, key, name):
    if name not in handlers:
        raise ManifestError(
            f"{path}: handler `{spec.name}`: {key} names `{name}`, but the library has only {', '.join(f'`{each}`' for each in sorted(handlers))}"
        )
    return handlers[name]
