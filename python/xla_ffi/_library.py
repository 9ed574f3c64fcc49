"""A loaded library."""

import ctypes
import difflib
import os
import threading

from . import _handler, _jax, _legacy, _manifest
from ._errors import LibraryError

_lock = threading.Lock()
_loaded = {}  # (real path, prefix): Library; libraries stay loaded as long as the process
_targets = {}  # (target, platform): real path


def load(path, prefix=None):
    """Loads a shared library made with this SDK and registers its handlers with JAX.

    ``path`` names the file. A handler's target is called ``PREFIX.HANDLER``, the prefix being the
    library's own name unless one is given: with prefixes, two builds of one library can be used side
    by side. Loading a file twice gives the same object. Raises :class:`LibraryError` (or a subclass)
    when the file cannot be loaded or its targets clash with another library's.
    """
    key = (os.path.realpath(os.fspath(path)), prefix)
    with _lock:
        if key not in _loaded:
            _loaded[key] = Library(*key)
        return _loaded[key]


class Library:
    """The handlers of one file, as attributes and in ``handlers``; its targets of the custom calls that
    came before XLA FFI in ``legacy``, under their own names, registered as jaxlib registers those."""

    def __init__(self, path, prefix=None):
        self.path = path
        self.prefix = prefix
        described = _manifest.read_all(path).values()
        specs = [spec for handlers, _ in described for spec in handlers.values()]
        try:
            self._image = ctypes.CDLL(path)
        except OSError as error:
            raise LibraryError(f"{path} cannot be loaded: {error}") from error
        targets = _legacy.listed(self._image, path)
        plans = [(spec, _handler.refusal(spec), self._stages(spec)) for spec in specs]
        for spec, _refusal, _addresses in plans:
            for platform in spec.platforms:
                target = self._target(spec)
                owner = _targets.setdefault((target, platform), path)
                if owner != path:
                    raise LibraryError(
                        f"{path}: {target} is registered by {owner} already: load one of them with prefix="
                    )
        names = [spec.name for spec in specs]
        self.handlers = {}
        for spec, refusal, addresses in plans:
            if refusal is None:
                for platform in spec.platforms:
                    _jax.register(self._target(spec), addresses, platform)
            handler = _handler.Handler(spec, self._target(spec), path, refusal, prefix)
            self.handlers[f"{spec.library}.{spec.name}"] = handler
            # With several libraries in one file a name may be ambiguous: then only the long form works.
            if names.count(spec.name) == 1:
                self.handlers[spec.name] = handler
        self.legacy = {}
        declared = {spec.name: spec for _, legacy in described for spec in legacy}
        for name, platform, address, signature in targets:
            # The programs that call them know them by these names.
            target = f"{self.prefix}.{name}" if self.prefix else name
            key = (target, f"legacy {platform.lower()}")
            owner = _targets.setdefault(key, path)
            if owner != path or (name in self.legacy and self.legacy[name].signature != signature):
                raise LibraryError(f"{path}: the legacy target {target} is registered by {owner} already")
            _jax.register_legacy(target, address, platform)
            self.legacy[name] = _legacy.LegacyTarget(name, target, signature, declared.get(name))

    def _target(self, spec):
        return f"{self.prefix or spec.library}.{spec.name}"

    def _stages(self, spec):
        addresses = {}
        for stage, symbol in spec.stages.items():
            try:
                function = getattr(self._image, symbol)
            except (AttributeError, ValueError) as error:
                raise LibraryError(f"{self.path} does not export {symbol!r}, which its manifest names") from error
            # JAX has no way to reach the record stage so far.
            if stage != "record":
                addresses[stage] = ctypes.cast(function, ctypes.c_void_p).value
        return addresses

    def __reduce__(self):
        return load, (self.path, self.prefix)

    def __getattr__(self, name):
        handlers = self.__dict__.get("handlers", {})
        if name in handlers:
            return handlers[name]
        near = difflib.get_close_matches(name, handlers, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(h for h in handlers if '.' not in h)}"
        raise AttributeError(f"{self.__dict__.get('path')} has no handler {name!r}: {hint}")

    def __getitem__(self, name):
        return getattr(self, name)

    def __dir__(self):
        return [*super().__dir__(), *(name for name in self.handlers if "." not in name)]

    def __repr__(self):
        return f"<library {self.path}: {', '.join(name for name in self.handlers if '.' not in name)}>"
