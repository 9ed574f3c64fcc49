"""References from a handler to other handlers of its library, for derivatives and for batching.

Names are checked when the library is loaded. ``xla-ffi doctor`` checks the signatures.
"""

import dataclasses
from typing import Any

from . import _attributes, _signature
from ._errors import ManifestError


@dataclasses.dataclass(frozen=True)
class Other:
    """Batching by a different handler, whose operands all have one additional leading dimension.

    ``spec`` describes the handler that is batched. ``said`` are the caller's keywords.
    """

    handler: Any
    spec: Any = dataclasses.field(compare=False)
    said: tuple = ()

    def __repr__(self):
        return f"by {self.handler.__qualname__}"

    def attributes(self, attributes):
        """Returns the attributes of a call that the other handler accepts."""
        return passed_on(self.spec, self.handler.spec, attributes, self.handler.spec.open_attrs)


class Gradient:
    """The handlers that compute a handler's gradient. Two objects are equal only if they are identical."""

    def __init__(self, handler, found):
        gradient = handler.spec.gradient
        self.name = handler.__qualname__
        self.linear = gradient.linear
        self.residuals = gradient.residuals
        self.vjp, self.forward, self.jvp, self.transpose = (
            found.get(getattr(gradient, key)) for key in ("vjp", "forward", "jvp", "transpose")
        )
        #: Names of the additional results of ``forward``, after the handler's own results.
        self.more = ()
        if self.forward is not None:
            self.more = tuple(ret.name for ret in self.forward.spec.rets[len(handler.spec.rets) :])
        self._own = handler

    def __repr__(self):
        return _signature.gradient(self._own.spec.gradient)

    def call(self, which, attributes, args, results, **options):
        """Calls one of the handlers and returns a sequence of results. ``"linear"`` is the handler itself.

        ``results`` are the types of the results as ``(shape, dtype)``, or None for a token, without the additional
        results of ``forward``. ``options`` are further keywords of the call.
        """
        handler = self._own if which == "linear" else getattr(self, which)
        given = [self._own._token_type() if result is None else self._own._array_type(*result) for result in results]
        if which == "forward":
            # The types of the handler's own results are known from its call. The declaration determines the others.
            given += [None] * len(self.more)
        out = handler(*args, attrs=passed_on(self._own.spec, handler.spec, attributes), result_shape_dtypes=given, **options)
        return out if isinstance(out, tuple) else () if out is None else (out,)

    def saved(self, args, rets, differentiable):
        """Returns the operands of a call that its linear map needs, as indices into the arguments followed by the
        results.

        ``args`` and ``rets`` are the operands' names. ``differentiable`` has a bool for each argument.
        """
        names = [(name, True) for name in args] + [(name, False) for name in (*rets, *self.more)]
        constant = [i for i, varies in enumerate(differentiable) if not varies]
        if self.residuals is None:
            found = constant if self.linear else list(range(len(args)))
        else:
            found = []
            for name in self.residuals:
                # If an argument and a result share a name, the name refers to the argument.
                is_argument = (name, True) in names
                found += [i for i, entry in enumerate(names) if entry == (name, is_argument)]
        return tuple(found + (constant if self.linear else []))


def passed_on(spec, to, attributes, undeclared=False):
    """Returns the attributes of a call that a different handler declares, or all of them if ``undeclared``.

    Missing attributes, and missing members of dictionaries, have the first handler's defaults.
    """
    given = _attributes.with_defaults(spec, {name: frozen.value for name, frozen in attributes})
    return _known_to(to, given, None, undeclared)


def _known_to(to, given, inside, undeclared):
    declared = {attr.name for attr in to.attrs if attr.inside == inside}
    if inside is not None and not declared:
        return given  # a dictionary without declared members
    return {
        name: _known_to(to, value, name, undeclared) if inside is None and isinstance(value, dict) else value
        for name, value in given.items()
        if undeclared or name in declared
    }


def resolve(path, handlers):
    """Replaces the names in each handler's batching and gradient by handlers.

    ``handlers`` has the handlers of a library by name.
    """
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
