"""A loaded library."""

import contextlib
import ctypes
import difflib
import itertools
import os
import threading

from . import _file, _handler, _jax, _legacy, _manifest, _record
from ._errors import LibraryError

_lock = threading.Lock()
# Libraries stay loaded as long as the process.
_loaded = {}  # (real path, prefix): (stamp, Library), the latest
_libraries = {}  # (real path, prefix, digest): Library
_images = {}  # (real path, digest): the loaded library
_targets = {}  # (target, platform): (real path, digest) of the library that registered it


def load(path, prefix=None):
    """Loads a shared library made with this SDK and registers its handlers with JAX.

    ``path`` names the file. A handler's target is called ``PREFIX.HANDLER``, the prefix being the
    library's own name unless one is given: with prefixes, two builds of one library can be used side
    by side. Loading a file twice gives the same object, as long as the file is the same. One that has
    changed, since it was rebuilt, is loaded anew and gives another object: its handlers run the new code,
    those of the old object, and what was jitted with them, go on to run the old. The new targets are called
    ``PREFIX@2.HANDLER`` and so on. Libraries that the file depends on are not looked at. Raises
    :class:`LibraryError` (or a subclass) when the file cannot be loaded or its targets clash with another
    library's.
    """
    key = (os.path.realpath(os.fspath(path)), prefix)
    with _lock:
        if key in _loaded:
            before, library = _loaded[key]
            if _file.stamp(key[0]) == before:
                return library
        contents = _file.read(key[0])
        named = (*key, contents.digest)
        if named not in _libraries:
            _libraries[named] = Library(*key, contents)
        _loaded[key] = (contents.stamp, _libraries[named])
        return _libraries[named]


class Library:
    """The handlers of one file, as attributes and in ``handlers``; its targets of the custom calls that
    came before XLA FFI in ``legacy``, under their own names, registered as jaxlib registers those."""

    def __init__(self, path, prefix=None, contents=None):
        self.path = path
        self.prefix = prefix
        contents = contents or _file.read(path)
        self._owner = (path, contents.digest)
        described = _manifest.read_all(path, contents.data).values()
        specs = [spec for handlers, _ in described for spec in handlers.values()]
        if self._owner not in _images:
            _images[self._owner] = _file.load(contents, any(known == path for known, _ in _images))
        self._image = _images[self._owner]
        listed = _legacy.listed(self._image, path)
        plans = [(spec, _handler.refusal(spec), self._stages(spec)) for spec in specs]
        # Nothing is registered, and no name taken, before all is known to be well.
        self._generation = self._free_generation(plans, listed)
        names = [spec.name for spec in specs]
        self.handlers = {}
        for spec, refusal, _addresses in plans:
            handler = _handler.Handler(spec, self._target(spec), path, refusal, prefix)
            self.handlers[f"{spec.library}.{spec.name}"] = handler
            # With several libraries in one file a name may be ambiguous: then only the long form works.
            if names.count(spec.name) == 1:
                self.handlers[spec.name] = handler
        self.legacy = {}
        declared = {spec.name: spec for _, legacy in described for spec in legacy}
        for name, _platform, _address, signature in listed:
            target = _legacy.LegacyTarget(name, self._legacy_target(name), signature, declared.get(name))
            if self.legacy.setdefault(name, target).signature != signature:
                raise LibraryError(f"{path}: the legacy target {name} is listed with two signatures")
        for spec, platform, addresses in self._registered(plans):
            with self._claim(self._target(spec), platform):
                _jax.register(self._target(spec), addresses, platform)
        for spec, why, addresses in plans:
            if why is None:
                platforms = dict.fromkeys(spec.platforms, addresses)
                _record.know(self._target(spec), path, spec.name, dict(spec.stages), platforms)
        for name, platform, address, _signature in listed:
            with self._claim(self._legacy_target(name), _legacy_platform(platform)):
                _jax.register_legacy(self._legacy_target(name), address, platform)

    @staticmethod
    def _registered(plans):
        """What this jaxlib takes, by handler and platform."""
        return [(spec, platform, addresses) for spec, why, addresses in plans if why is None for platform in spec.platforms]

    def _free_generation(self, plans, listed):
        """Which of the builds of this file it is whose names are free: 1 but where an earlier one has them."""
        for self._generation in itertools.count(1):
            names = [(self._target(spec), platform) for spec, platform, _ in self._registered(plans)]
            names += [(self._legacy_target(name), _legacy_platform(platform)) for name, platform, _, _ in listed]
            owners = [(name, _targets.get((name, platform), self._owner)) for name, platform in names]
            for name, (path, _digest) in owners:
                if path != self.path:
                    raise LibraryError(f"{self.path}: {name} is registered by {path} already: load one of them with prefix=")
            if all(owner == self._owner for _, owner in owners):
                return self._generation

    @contextlib.contextmanager
    def _claim(self, target, platform):
        """Enters a name while it is being registered; what jaxlib does not take stays free."""
        before = _targets.get((target, platform))
        _targets[(target, platform)] = self._owner
        try:
            yield
        except BaseException:
            if before is None:
                del _targets[(target, platform)]
            raise

    def _build(self):
        """The mark of a later build of the file in its targets' names."""
        return "" if self._generation == 1 else f"@{self._generation}"

    def _legacy_target(self, name):
        # The programs that call them know them by their names.
        return f"{self.prefix}.{name}{self._build()}" if self.prefix else f"{name}{self._build()}"

    def _target(self, spec):
        return f"{self.prefix or spec.library}{self._build()}.{spec.name}"

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


def _legacy_platform(platform):
    return f"legacy {platform.lower()}"
