"""Exported models, each with a list of the libraries that contain its handlers."""

import dataclasses
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional, Union

import jax

from . import _file, _jax, _library, _manifest, _needs, _record, _signature, _user_signature
from ._errors import LibraryError
from ._needs import Need


class Model:
    """An exported function and the handlers that it calls."""

    def __init__(self, exported: Any, needs: Sequence[Need], libraries: Sequence[Any], vjp_order: int = 0):
        #: The object that ``jax.export`` returned.
        self.exported = exported
        #: The targets that the model calls, as :class:`Need`. For a model that was read from a file, the list includes
        #: those of its derivatives.
        self.needs = tuple(needs)
        # The libraries, as stored in the file: dictionaries with the keys "file", "prefix", "digest" and "targets", and
        # the arguments of `load`.
        self._libraries = tuple(libraries)
        self._vjp_order = vjp_order

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the exported function. Calls are also possible under ``jax.jit`` and in other traced functions."""
        return self.exported.call(*args, **kwargs)

    def serialize(self, vjp_order: Optional[int] = None) -> bytes:
        """Returns the model and its list of handlers as bytes, for :func:`load_exported`.

        ``vjp_order`` is the number of reverse-mode derivatives to include, as in ``Exported.serialize``. By default, a
        model that was read keeps its derivatives, and a newly exported model has none.
        """
        order = self._vjp_order if vjp_order is None else vjp_order
        with _record.plain():
            body = bytes(self.exported.serialize(vjp_order=order))
        needs, libraries = self.needs, self._libraries
        if order != self._vjp_order:
            # Serialization may have created derivatives, which may call further handlers.
            needs = _needs.opened(body, "the model")[0]
            known = {target for each in libraries for target in each["targets"]}
            libraries = (*libraries, *_used(need.target for need in needs if need.target not in known))
        return _needs.write_model({"libraries": libraries, "needs": [dataclasses.asdict(need) for need in needs]}, body)

    def __repr__(self) -> str:
        return f"<model {self.exported.fun_name} for {', '.join(self.exported.platforms)}: {', '.join(need.target for need in self.needs) or 'no handlers'}>"


def export(function: Any, *args: Any, platforms: Union[Sequence[str], str, None] = None, **kwargs: Any) -> Model:
    """Exports ``function`` like ``jax.export.export``, and records the handlers of loaded libraries that it calls::

        data = xla_ffi.export(jax.jit(lib.rms_norm), x).serialize()
        y = xla_ffi.load_exported(data).call(x)

    ``args`` and ``kwargs`` are arrays or ``jax.ShapeDtypeStruct``. jax refuses custom calls without a stability
    guarantee. This function allows the targets of libraries that are loaded in this process, and jax still refuses
    others.
    """
    from jax import export as jax_export

    platforms = [platforms] if isinstance(platforms, str) else platforms
    jitted = function if hasattr(function, "trace") or hasattr(function, "lower") else jax.jit(function)
    while True:
        vouched = _loaded().keys()
        checks = [jax_export.DisabledSafetyCheck.custom_call(target) for target in vouched]
        try:
            with _record.plain():
                exported = jax_export.export(jitted, platforms=platforms, disabled_checks=checks)(*args, **kwargs)
            break
        except ValueError:
            # Tracing the function may have loaded the library.
            if vouched >= _loaded().keys():
                raise
    found = _needs.needs(exported)
    return Model(exported, found, _used(need.target for need in found))


def load_exported(model: Union[str, "os.PathLike[str]", bytes], libraries: Union[Iterable[Any], "_library.Library"] = ()) -> Model:
    """Reads the output of :meth:`Model.serialize` or of jax's own serialization, and loads the handlers that it calls.

    Warns with a ``RuntimeWarning`` if a library is not byte for byte the exported one.

    Args:
        model: A file or its bytes.
        libraries: Paths or loaded libraries, needed if libraries have moved since the export. Each replaces the library
            with the same bytes, whatever its name. A different build replaces the library with the same ``prefix`` or
            file name.

    Raises:
        LibraryError: Before any call, if a target of the model is missing or does not support the model's platform.
    """
    if isinstance(libraries, (str, bytes, os.PathLike)):
        raise LibraryError(f"libraries=: expected a list of paths, got {libraries!r}; pass [{libraries!r}]")
    given = [_elsewhere(each) for each in ([libraries] if isinstance(libraries, _library.Library) else libraries)]
    data, where = _needs.read_model(model)
    head, body = _needs.model_parts(data, where)
    listed = head.get("libraries", [])
    exported = _needs.with_derivatives(_needs.deserialized(body, where), where)
    found, platforms = _needs.of_exported(exported, where)
    stand = _standing(listed, given)
    for entry, choices in zip(listed, stand):
        if choices:
            _take_place(entry, choices[0])
    targets = [need.target for need in found if not need.of_jax]
    for each in given:
        if each.library is None and not any(each in choices for choices in stand) and not _are_there(targets, platforms):
            _library.load(each.path)
    for entry, choices in zip(listed, stand):
        # A file may be missing if a different file has already registered its targets.
        if not choices and os.path.exists(entry["file"]) and not _are_there(entry["targets"], platforms):
            _library.load(entry["file"], entry["prefix"], **_user_signature.read_back(entry))
    have = _loaded()
    missing = [target for target in targets if target not in have]
    if missing:
        files = ", ".join(entry["file"] for entry in listed)
        hint = f"pass the libraries that have them with libraries={f' (exported with {files})' if files else ''}"
        raise LibraryError(f"{where}: no loaded library has {', '.join(f'`{each}`' for each in missing)}; {hint}")
    for target in targets:
        if platforms and _lacks(target, platforms, have) == list(platforms):
            raise LibraryError(f"{where}: the model calls `{target}` on {' or '.join(platforms)}, which the loaded library does not support")
    digests = {entry["digest"] for entry in listed}
    others = sorted({each.path for entry in listed for target in entry["targets"] for each in have.get(target, ()) if each.digest not in digests})
    if others:
        warnings.warn(f"{where}: exported with a different build of {' and '.join(others)}; results may differ", RuntimeWarning, stacklevel=2)
    return Model(exported[0], found, _used(targets, given), len(exported) - 1)


def report(model, paths):
    """Returns a report with a line per target that a model calls and the library that has it, and whether all were
    found."""
    data, where = _needs.read_model(model)
    listed, given = _needs.model_parts(data, where)[0].get("libraries", []), [_elsewhere(path) for path in paths]
    stand, have = _standing(listed, given), {}
    for path, each in zip(paths, given):
        # Targets of a caller's library are known under the library's own names and under the names in the model's list.
        said = {None: {}, **{entry["prefix"]: _user_signature.read_back(entry) for entry, choices in zip(listed, stand) if each in choices}}
        libraries = _manifest.read_all(each.path, required=not any(any(keywords.values()) for keywords in said.values()))
        for prefix, keywords in said.items():
            for name, (handlers, legacy) in _user_signature.complete(each.path, libraries, keywords.get("handlers"), keywords.get("legacy")).items():
                targets = [f"{prefix or name}.{handler}" for handler in handlers]
                have.update(dict.fromkeys([*targets, *(f"{prefix}.{spec.name}" if prefix else spec.name for spec in legacy)], path))
    lines, good = [], True
    for need in _needs.opened(data, where)[0]:
        by = "jax" if need.of_jax else have.get(need.target)
        good = good and by is not None
        attributes = ", ".join(f"{name}: {kind}" for name, kind in need.attributes)
        said = f"in {by}" if by else "in none of the libraries" if paths else "?"
        # The model's text is untrusted: keep it on one line and without terminal control sequences.
        lines.append(_signature.printable(f"{need.target}  API version {need.api_version}  {{{attributes}}}  {said}").replace("\n", "\\n"))
    return "\n".join(lines) + "\n" if lines else "it calls no handlers\n", good or not paths


# ---- the libraries in a model's file, and their replacements ----------------------------------------------------------


class _Given(NamedTuple):
    """A library that a caller passes, as a path or as a loaded library."""

    path: str
    names: set[str]
    digest: str
    library: Any = None


def _elsewhere(each):
    if isinstance(each, _library.Library):
        return _Given(each.path, {os.path.basename(each.path)}, each.digest, each)
    path = os.fsdecode(each)
    real = os.path.realpath(path)
    return _Given(real, {os.path.basename(path), os.path.basename(real)}, _file.read(real).digest)


def _loaded():
    """Returns the loaded libraries by registered target. A target may have several libraries, one per platform."""
    found = {}
    for library in _library.loaded():
        targets = [handler.target for handler in library.handlers.values() if not handler.refused]
        for target in (*targets, *(each.target for each in library.legacy.values())):
            # A file that is loaded with several descriptions counts as one library.
            found.setdefault(target, {})[library.path, library.prefix, library.digest] = library
    return {target: list(libraries.values()) for target, libraries in found.items()}


def _used(targets, given=()):
    """Returns the list of loaded libraries that have these targets, with the caller's path if ``given`` has the
    library."""
    places, theirs, have = {each.digest: each.path for each in given}, {}, _loaded()
    for target in targets:
        for library in have.get(target, ()):
            theirs.setdefault(library, []).append(target)
    return [
        {"file": places.get(each.digest, each.path), "prefix": each.prefix, "digest": each.digest, "targets": calls, **_user_signature.written(each._given)}
        for each, calls in theirs.items()
    ]


def _standing(listed, given):
    """Returns for each listed library the candidates in ``given`` that may replace that library.

    Candidates are the libraries with the same bytes. Without such libraries, candidates have the same file name or
    prefix, unless their bytes match a different listed library.
    """
    digests = {entry["digest"] for entry in listed}
    others = [each for each in given if each.digest not in digests]
    found = []
    for entry in listed:
        named = lambda each: os.path.basename(entry["file"]) in each.names
        prefixed = lambda each: each.library is not None and each.library.prefix == entry["prefix"] is not None
        same = [each for each in given if each.digest == entry["digest"]]
        found.append(same or [each for each in others if named(each) or prefixed(each)])
    return found


def _take_place(entry, choice):
    """Loads the replacement of a listed library, under the names that the model calls."""
    # This process may already have loaded the same bytes from a different file.
    if any((each.digest, each.prefix) == (choice.digest, entry["prefix"]) for each in _library.loaded()):
        return
    said = choice.library._given if choice.library is not None else {}
    _library.load(choice.path, entry["prefix"], **(said if any(said.values()) else _user_signature.read_back(entry)))


def _are_there(targets, platforms):
    """Returns true if targets are registered for all of a model's platforms."""
    have = _loaded()
    return all(target in have and not _lacks(target, platforms, have) for target in targets)


def _lacks(target, platforms, have):
    """Returns the model's platforms for which a target is not registered.

    The result is empty for targets of the original custom calls, whose platforms are unknown.
    """
    handlers = [handler for library in have.get(target, ()) for handler in library.handlers.values() if handler.target == target]
    names = {"cpu" if _jax.is_cpu(name) else name.lower() for handler in handlers for name in handler.spec.platforms}
    is_there = lambda platform: platform in names or ("gpu" in names and platform in ("cuda", "rocm"))
    return [platform for platform in platforms if handlers and not is_there(platform.lower())]
