"""A loaded library."""

import itertools
import os
import threading
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _declared, _file, _given, _handler, _image, _jax, _legacy, _legacy_list, _manifest, _record, _types
from ._described import Handlers
from ._errors import LibraryError

_lock = threading.RLock()
# Libraries stay loaded as long as the process.
_libraries = {}  # (real path, prefix, what is given, digest): Library
_images = {}  # (real path, digest): the loaded library
_targets = {}  # (target, platform): (real path, digest, what is registered) of the library that registered it


def load(
    path: Union[str, "os.PathLike[str]"],
    prefix: Optional[str] = None,
    *,
    handlers: Optional[_given.Given] = None,
    legacy: Optional[Mapping[str, str]] = None,
    types: Optional[Mapping[str, str]] = None,
) -> Any:
    """Loads a shared library made with this SDK and registers its handlers with JAX.

    ``path`` names the file. A handler's target is called ``PREFIX.HANDLER``, the prefix being the
    library's own name unless one is given: with prefixes, two builds of one library can be used side
    by side. Loading a file twice gives the same object, as long as the file is the same. One that has
    changed, since it was rebuilt, is loaded anew and gives another object: its handlers run the new code,
    those of the old object, and what was jitted with them, go on to run the old. The new targets are called
    ``PREFIX@2.HANDLER`` and so on. Libraries that the file depends on are not looked at. Raises
    :class:`LibraryError` (or a subclass) when the file cannot be loaded or its targets clash with another
    library's.

    ``handlers`` says what a library that does not describe itself has, upstream's C++ for one: by symbol the
    signature as ``help`` shows it, ``{"RmsNorm": "(x: f32[... n], *, eps: f32 = 1e-5) -> y: f32[... n]"}``, or a
    :class:`Signature` with stages, platforms and more. ``legacy`` does so for targets of the original custom calls:
    ``{"tiled_add": "cpu_status (f32[128], f32[2048]) -> f32[2048]"}``. ``types`` registers the state types of such
    a library, by the symbols of each one's id and info: ``{"Counter": "Counter::id, counter_info"}``, objects or
    functions that return their address. XLA is told the type as ``PREFIX.NAME``, as with targets.

    To type checkers the :class:`Library` is ``Any``, so that it can be given the class of a stub file
    (``python -m xla_ffi stubs``): ``lib: RmsNorm = xla_ffi.load(...)``.
    """
    given = _given.named(handlers=handlers, legacy=legacy, types=types)
    path = os.path.realpath(os.fsdecode(path))
    with _lock:
        contents = _file.read(path)
        key = (path, prefix, given, contents.digest)
        if key not in _libraries:
            _libraries[key] = Library(path, prefix, contents, handlers, legacy, types)
        return _libraries[key]


def loaded():
    """The libraries of this process."""
    with _lock:
        return list(_libraries.values())


class Library(Handlers):
    """The handlers of one file, as attributes and in ``handlers``; its targets of the custom calls that
    came before XLA FFI in ``legacy``, under their own names, registered as jaxlib registers those."""

    def __init__(self, path, prefix=None, contents=None, handlers=None, legacy=None, types=None):
        self.path: str = path
        self.prefix: Optional[str] = prefix
        _jax.refuse_before_first()
        contents = contents or _file.read(path)
        _image.refuse_foreign(contents.data, path)
        #: Names the contents of the file.
        self.digest: str = contents.digest
        self._owner = (path, contents.digest)
        self._given = {"handlers": dict(handlers or {}), "legacy": dict(legacy or {}), "types": dict(types or {})}
        types = _types.parse(path, types or {})
        described = _manifest.read_all(path, contents.data, required=not (handlers or legacy))
        described = _given.complete(path, described, handlers, legacy).values()
        specs = [spec for each, _ in described for spec in each.values()]
        if self._owner not in _images:
            _images[self._owner] = _file.load(contents, any(known == path for known, _ in _images))
        self._image = _images[self._owner]
        listed = _legacy_list.listed(self._image)
        known = {name for name, *_ in listed}
        given = {spec.name: spec for _, targets in described for spec in targets if spec.name in (legacy or {})}
        listed += [self._exported_target(spec) for name, spec in given.items() if name not in known]
        plans = [(spec, _handler.refusal(spec), self._stages(spec)) for spec in specs]
        # Nothing is registered, and no name taken, before all is known to be well.
        self._generation = self._free_generation(plans, listed)
        self._name([(spec, _handler.Handler(spec, self._target(spec), path, why, prefix, self._given)) for spec, why, _ in plans])
        for name in dict.fromkeys(spec.library for spec in specs):
            _declared.resolve(path, {spec.name: self.handlers[f"{name}.{spec.name}"] for spec in specs if spec.library == name})
        self.legacy: dict[str, _legacy.LegacyTarget] = {}
        declared = {spec.name: spec for _, targets in described for spec in targets}
        for name, _platform, _address, signature in listed:
            target = _legacy.LegacyTarget(
                name, self._legacy_target(name), signature, declared.get(name), (path, prefix, self._given)
            )
            self.legacy.setdefault(name, target)
        registered = self._registered(plans)
        platforms = dict.fromkeys(platform for _, platform, _ in registered)
        _types.register(path, contents, self._image, types, platforms, self._stem(specs[0]) if specs else "")
        for spec, platform, addresses in registered:
            _jax.register(self._target(spec), addresses, platform)
            _targets[(self._target(spec), platform)] = (*self._owner, addresses)
        for spec, why, addresses in plans:
            if why is None:
                platforms = dict.fromkeys(spec.platforms, addresses)
                _record.know(self._target(spec), path, spec.name, dict(spec.stages), platforms)
        for name, platform, address, _signature in listed:
            _jax.register_legacy(self._legacy_target(name), address, platform)
            _targets[(self._legacy_target(name), _legacy_platform(platform))] = (*self._owner, address)

    def _name(self, made):
        """Names the handlers."""
        names = [spec.name for spec, _ in made]
        self.handlers: dict[str, _handler.Handler] = {}
        for spec, handler in made:
            self.handlers[f"{spec.library}.{spec.name}"] = handler
            # With several libraries in one file a name may be ambiguous: then only the long form works.
            if names.count(spec.name) == 1:
                self.handlers[spec.name] = handler

    @staticmethod
    def _registered(plans):
        """What this jaxlib takes, by handler and platform."""
        return [(spec, platform, addresses) for spec, why, addresses in plans if why is None for platform in spec.platforms]

    def _free_generation(self, plans, listed):
        """Which of the builds of this file it is whose names are free: 1 but where an earlier one has them, or this one for other
        functions: its caller has said other stages."""
        for self._generation in itertools.count(1):
            names = [(self._target(spec), platform, addresses) for spec, platform, addresses in self._registered(plans)]
            names += [(self._legacy_target(name), _legacy_platform(platform), address) for name, platform, address, _ in listed]
            mine = [(*self._owner, what) for *_, what in names]
            owners = [_targets.get((name, platform), own) for (name, platform, _), own in zip(names, mine)]
            for (name, *_), (path, *_) in zip(names, owners):
                if path != self.path:
                    raise LibraryError(f"{self.path}: {name} is registered by {path} already: load one of them with prefix=")
            if owners == mine:
                return self._generation

    def _build(self):
        """The mark of a later build of the file in its targets' names."""
        return "" if self._generation == 1 else f"@{self._generation}"

    def _legacy_target(self, name):
        # The programs that call them know them by their names.
        return f"{self.prefix}.{name}{self._build()}" if self.prefix else f"{name}{self._build()}"

    def _stem(self, spec):
        return f"{self.prefix or spec.library}{self._build()}"

    def _target(self, spec):
        return f"{self._stem(spec)}.{spec.name}"

    def _exported_target(self, spec):
        """An entry of the list of targets for one that only the caller speaks of."""
        platform = "CUDA" if spec.signature.startswith("gpu") else "Host"
        return spec.name, platform, self._address(spec.name), spec.signature

    def _address(self, symbol):
        return _file.address(self._image, self.path, symbol)

    def _stages(self, spec):
        addresses = {}
        for stage, symbol in spec.stages.items():
            address = self._address(symbol)
            # JAX has no way to reach the record stage so far.
            if stage != "record":
                addresses[stage] = address
        return addresses

    def __reduce__(self):
        return _restored, (self.path, self.prefix, self._given)


def _restored(path, prefix, given):
    return load(path, prefix, **given)


def _legacy_platform(platform):
    return f"legacy {platform.lower()}"
