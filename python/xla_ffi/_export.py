"""Exported models that keep their handlers: a file that says where they are."""

import dataclasses
import json
import os
import struct
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional, Union

import jax

from . import _given, _library, _model, _record
from ._errors import LibraryError
from ._needs import Need, needs


class Model:
    """An exported function and the handlers that it calls."""

    def __init__(self, exported: Any, needs: Sequence[Need], libraries: Sequence[dict[str, Any]]):
        #: What ``jax.export`` made.
        self.exported = exported
        #: The targets that it calls, as :class:`Need`.
        self.needs = tuple(needs)
        self._libraries = tuple(libraries)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, under ``jax.jit`` and in other functions, too."""
        return self.exported.call(*args, **kwargs)

    def serialize(self) -> bytes:
        """The model and its list of handlers, for :func:`load_exported`."""
        head = {"libraries": list(self._libraries), "needs": [dataclasses.asdict(need) for need in self.needs]}
        text = json.dumps(head).encode()
        return _model.MAGIC + struct.pack("<I", len(text)) + text + bytes(self.exported.serialize())

    def __repr__(self) -> str:
        return f"<model {self.exported.fun_name} for {', '.join(self.exported.platforms)}: {', '.join(need.target for need in self.needs) or 'no handlers'}>"


def export(function: Any, *args: Any, platforms: Optional[Sequence[str]] = None, **kwargs: Any) -> Model:
    """Exports ``function``, as ``jax.export.export`` does, with the handlers of loaded libraries that it calls.

    ``args`` and ``kwargs`` are arrays or ``jax.ShapeDtypeStruct``. jax refuses custom calls that nobody vouches for: the
    libraries that this process has loaded are vouched for, others are refused as ever.
    """
    from jax import export as jax_export

    loaded = {}
    for library in _library.loaded():
        for handler in library.handlers.values():
            loaded[handler.target] = library
        for target in library.legacy.values():
            loaded[target.target] = library
    checks = [jax_export.DisabledSafetyCheck.custom_call(target) for target in loaded]
    made = jax_export.export(function if hasattr(function, "trace") or hasattr(function, "lower") else jax.jit(function), platforms=platforms, disabled_checks=checks)
    with _record.plain():
        exported = made(*args, **kwargs)
    found = needs(exported)
    own = [loaded[need.target] for need in found if need.target in loaded]
    libraries = [
        {"file": library.path, "prefix": library.prefix, "digest": library.digest, **_given.written(library._given)} for library in dict.fromkeys(own)
    ]
    return Model(exported, found, libraries)


def load_exported(model: Union[str, "os.PathLike[str]", bytes], libraries: Iterable[Any] = ()) -> Model:
    """Reads what :meth:`Model.serialize` wrote, or jax's own serialised form, and loads the handlers that it calls.

    ``model`` is a file or its bytes; ``libraries`` are paths or loaded libraries, for those that lie elsewhere than where
    they were exported: a library that calls itself as that one takes its place. A library that is not, byte for byte,
    the one that the model was exported with is a ``RuntimeWarning``. Raises :class:`LibraryError` when a
    target that the model calls is not there, before anything is called.
    """
    from jax import export as jax_export

    if isinstance(libraries, (str, bytes, os.PathLike)):
        raise LibraryError(f"libraries={libraries!r} is one path: give a list of them")
    data, where = _model.read(model)
    head, body = _model.parts(data, where)
    libraries = list(libraries)
    given = [each for each in libraries if isinstance(each, _library.Library)]
    elsewhere = [os.path.realpath(os.fsdecode(each)) for each in libraries if not isinstance(each, _library.Library)]
    listed = [_listed(about, where) for about in head.get("libraries", [])]
    names = {os.path.basename(each.file) for each in listed}
    given += [_library.load(path) for path in elsewhere if os.path.basename(path) not in names]
    kept = []  # the list as it is from here on, for whoever serialises the model again
    for about, (file, prefix, _digest, signatures) in zip(head.get("libraries", []), listed):
        same = lambda path, file=file: os.path.basename(path) == os.path.basename(file)
        # Under the names that the model calls.
        replaced = [
            library if library.prefix == prefix else _library.load(library.path, prefix, **library._given)
            for library in given
            if same(library.path)
        ]
        replaced += [_library.load(path, prefix, **signatures) for path in elsewhere if same(path)]
        if not replaced and os.path.exists(file):
            replaced = [_library.load(file, prefix, **signatures)]
        kept.append({**about, "file": replaced[0].path, "digest": replaced[0].digest} if replaced else about)
    try:
        exported = jax_export.deserialize(bytearray(body))
    except Exception as error:  # the reader of flat buffers has every kind of error for a damaged file
        if isinstance(error, ImportError):
            raise
        raise LibraryError(f"{where} is no model that jax.export serialised: {type(error).__name__}: {error}") from error
    found = needs(exported)
    there = _targets()
    missing = [need.target for need in found if not need.of_jax and need.target not in there]
    if missing:
        files = ", ".join(about["file"] for about in head.get("libraries", []))
        hint = f"it was exported with {files}" if files else "say which libraries have them with libraries="
        raise LibraryError(f"{where} calls {', '.join(missing)}, which no loaded library has: {hint}")
    _warn_of_other_builds(found, listed, where)
    return Model(exported, found, kept)


def _warn_of_other_builds(found, listed, where):
    """Warns of handlers that the model calls and that are not, byte for byte, those it was exported with.

    What counts is what is registered: a process that has an earlier build of a file calls that by the file's names.
    """
    digests = {os.path.basename(each.file): each.digest for each in listed}
    called = {need.target for need in found}
    others = {path for path, digest in _library.owners(called) if digests.get(os.path.basename(path)) not in (None, digest)}
    if others:
        warnings.warn(f"{where} was exported with another build of {' and '.join(sorted(others))}: its results may differ", RuntimeWarning, stacklevel=3)


class _Listed(NamedTuple):
    """A library of a model's list: ``signatures`` are what its caller said of it, keywords of ``load``."""

    file: str
    prefix: Optional[str]
    digest: Optional[str]
    signatures: dict[str, Any]


def _listed(about, where):
    file, prefix, digest = about.get("file"), about.get("prefix"), about.get("digest")
    signatures = _given.read_back(about)
    if not isinstance(file, str) or not all(each is None or isinstance(each, str) for each in (prefix, digest)) or signatures is None:
        raise LibraryError(f"{where}: its list of libraries is damaged")
    return _Listed(file, prefix, digest, signatures)


def _targets():
    found = set()
    for library in _library.loaded():
        found |= {handler.target for handler in library.handlers.values() if not handler.refused}
        found |= {target.target for target in library.legacy.values()}
    return found
