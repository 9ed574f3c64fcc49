"""Exported models that keep their handlers: a file that says where they are."""

import dataclasses
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

import jax

from . import _library, _listed, _misfits, _model, _needs, _record
from ._errors import LibraryError
from ._needs import Need


class Model:
    """An exported function and the handlers that it calls."""

    def __init__(self, exported: Any, needs: Sequence[Need], libraries: Sequence[Any], vjp_order: int = 0):
        #: What ``jax.export`` made.
        self.exported = exported
        #: The targets that it calls, as :class:`Need`; of a model that was read, those of its derivatives, too.
        self.needs = tuple(needs)
        self._libraries = tuple(libraries)
        self._vjp_order = vjp_order

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, under ``jax.jit`` and in other functions, too."""
        return self.exported.call(*args, **kwargs)

    def serialize(self, vjp_order: Optional[int] = None) -> bytes:
        """The model and its list of handlers, for :func:`load_exported`.

        ``vjp_order`` is the number of derivatives in reverse mode that go with it, each of the one before it, as in
        ``Exported.serialize``: unless it is given, those that the model was read with, none of one that was made here.
        """
        order = self._vjp_order if vjp_order is None else vjp_order
        with _record.plain():
            body = bytes(self.exported.serialize(vjp_order=order))
        needs, libraries = self.needs, self._libraries
        if order != self._vjp_order:
            # What the derivatives call, which have just been made.
            needs = _needs.merged(_needs.opened(body, "the model").calls)
            known = {target for each in libraries for target in each.targets}
            libraries = (*libraries, *_listed.used(need.target for need in needs if need.target not in known))
        return _model.written({"libraries": _listed.written(libraries), "needs": [dataclasses.asdict(need) for need in needs]}, body)

    def __repr__(self) -> str:
        return f"<model {self.exported.fun_name} for {', '.join(self.exported.platforms)}: {', '.join(need.target for need in self.needs) or 'no handlers'}>"


def export(function: Any, *args: Any, platforms: Union[Sequence[str], str, None] = None, **kwargs: Any) -> Model:
    """Exports ``function``, as ``jax.export.export`` does, with the handlers of loaded libraries that it calls.

    ``args`` and ``kwargs`` are arrays or ``jax.ShapeDtypeStruct``. jax refuses custom calls that nobody vouches for: the
    libraries that this process has loaded are vouched for, others are refused as ever.
    """
    from jax import export as jax_export

    platforms = [platforms] if isinstance(platforms, str) else platforms
    jitted = function if hasattr(function, "trace") or hasattr(function, "lower") else jax.jit(function)
    while True:
        vouched = _listed.loaded().keys()
        checks = [jax_export.DisabledSafetyCheck.custom_call(target) for target in vouched]
        try:
            with _record.plain():
                exported = jax_export.export(jitted, platforms=platforms, disabled_checks=checks)(*args, **kwargs)
            break
        except ValueError:
            # The function itself may have loaded the library.
            if vouched >= _listed.loaded().keys():
                raise
    found = _needs.needs(exported)
    return Model(exported, found, _listed.used(need.target for need in found))


def load_exported(model: Union[str, "os.PathLike[str]", bytes], libraries: Union[Iterable[Any], "_library.Library"] = ()) -> Model:
    """Reads what :meth:`Model.serialize` wrote, or jax's own serialised form, and loads the handlers that it calls.

    ``model`` is a file or its bytes; ``libraries`` are paths or loaded libraries, for those that lie elsewhere than where
    they were exported: one takes the place of that with the same bytes, whatever it is called now; of another build, of
    that with its ``prefix``, or its file's name. A library that is not, byte for byte, the one that the model was exported
    with is a ``RuntimeWarning``. Raises :class:`LibraryError` when a target that the model calls is not there, or not for
    the platform that it would run on, before anything is called.
    """
    if isinstance(libraries, (str, bytes, os.PathLike)):
        raise LibraryError(f"libraries={libraries!r} is one path: give a list of them")
    given = [_listed.given(each) for each in ([libraries] if isinstance(libraries, _library.Library) else libraries)]
    data, where = _model.read(model)
    head, body = _model.parts(data, where)
    listed = _listed.read(head, where)
    exported = _needs.with_derivatives(_needs.deserialized(body, where), where)
    calls, platforms = _needs.of_exported(exported, where)
    found = _needs.merged(calls)
    stand = _listed.standing(listed, given)
    for entry, choices in zip(listed, stand):
        if choices:
            _listed.take_place(entry, choices[0])
    targets = [need.target for need in found if not need.of_jax]
    for each in given:
        if each.library is None and not any(each in choices for choices in stand) and not _are_there(targets, platforms):
            _library.load(each.path)
    for entry, choices in zip(listed, stand):
        # What is registered already, from elsewhere, need not be there.
        if not choices and os.path.exists(entry.file) and not _are_there(entry.targets, platforms):
            _library.load(entry.file, entry.prefix, **entry.signatures)
    have = _listed.loaded()
    missing = [target for target in targets if target not in have]
    if missing:
        files = ", ".join(each.file for each in listed)
        hint = f"it was exported with {files}" if files else "say which libraries have them with libraries="
        raise LibraryError(f"{where} calls {', '.join(missing)}, which no loaded library has: {hint}")
    _refuse_other_platforms(calls, platforms, where)
    others = _listed.other_builds(listed, targets)
    if others:
        warnings.warn(f"{where} was exported with another build of {' and '.join(others)}: its results may differ", RuntimeWarning, stacklevel=2)
    return Model(exported[0], found, _listed.used(targets, given), len(exported) - 1)


def _are_there(targets, platforms):
    """Whether targets are registered, for all of a model's platforms."""
    have = _listed.loaded()
    return all(target in have and not _lacks(target, platforms, have) for target in targets)


def _lacks(target, platforms, have):
    """Those of a model's platforms that a target is not registered for; of a legacy target they are not known."""
    handlers = [handler for library in have.get(target, ()) for handler in library.handlers.values() if handler.target == target]
    registered = [platform for handler in handlers for platform in handler.spec.platforms]
    return [platform for platform in platforms if handlers and not _misfits.is_for(registered, platform)]


def _refuse_other_platforms(calls, platforms, where):
    """Refuses a model whose calls are registered, but for none of its platforms."""
    have = _listed.loaded()
    for target in dict.fromkeys(call.need.target for call in calls if call.always):
        if platforms and set(_lacks(target, platforms, have)) == set(platforms):
            raise LibraryError(f"{where} calls {target} for {' or '.join(platforms)}, and the loaded library does not have it for that")
