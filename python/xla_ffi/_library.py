"""Loads libraries into JAX."""

import ctypes
import itertools
import os
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _abi, _file, _handler, _image, _jax, _manifest, _record, _related_handlers
from ._description import Handlers
from ._errors import LibraryError, UnsupportedRuntimeError

if TYPE_CHECKING:
    from . import _legacy, _user_signature

_lock = threading.RLock()
# Libraries stay loaded until the process ends.
_libraries = {}  # (real path, prefix, arguments of load, digest): Library
_images = {}  # (real path, digest): the loaded library
_targets = {}  # (target, platform): (real path, digest, addresses) of the library that registered it
# Matches the symbols of a state type. Users must name these symbols, because libraries with upstream's C++ do not
# register their types.
_TYPE_SYMBOLS = re.compile(r"\s*(\w+(?:::\w+)*)\s*(?:,\s*(\w+(?:::\w+)*)\s*)?")


def load(
    path: Union[str, "os.PathLike[str]"],
    prefix: Optional[str] = None,
    *,
    handlers: "Optional[_user_signature.Given]" = None,
    legacy: Optional[Mapping[str, str]] = None,
    types: Optional[Mapping[str, str]] = None,
) -> Any:
    """Loads a shared library made with this SDK and registers its handlers with JAX.

    Loading a file twice returns the same object if the file has not changed. If it has, for example after a rebuild,
    this loads the new file and returns a new object. Handlers of the old object, and functions jitted with them, keep
    running the old code. The new targets are named ``PREFIX@2.HANDLER`` and so on. Changes in libraries that the file
    depends on are not detected.

    Type checkers see the :class:`Library` as ``Any``, so that it can be annotated with the class of a stub file
    (``python -m xla_ffi stubs``): ``lib: RmsNorm = xla_ffi.load(...)``.

    Args:
        path: The library's file.
        prefix: Handlers are registered as ``PREFIX.HANDLER``. The default is the library's own name. With different
            prefixes, two builds of one library can be used together.
        handlers: Signatures of handlers in a library that does not describe them, for example upstream's C++, by symbol.
            A signature is a :class:`Signature`, or a text in the syntax of ``help``:
            ``{"RmsNorm": "(x: f32[... n], *, eps: f32 = 1e-5) -> y: f32[... n]"}``.
        legacy: Signatures of targets of the original custom calls:
            ``{"tiled_add": "cpu_status (f32[128], f32[2048]) -> f32[2048]"}``.
        types: State types to register, with the symbols of their id and info: ``{"Counter": "Counter::id, counter_info"}``.
            A symbol is an object, or a function that returns its address. XLA knows a type as ``PREFIX.NAME``.

    Raises:
        LibraryError: The file cannot be loaded, or its targets clash with those of a different library. Subclasses:
            :class:`ManifestError` and :class:`UnsupportedRuntimeError`.
    """
    given = None
    if handlers or legacy or types:
        from . import _user_signature

        given = _user_signature.named(handlers=handlers, legacy=legacy, types=types)
    path = os.path.realpath(os.fsdecode(path))
    with _lock:
        contents = _file.read(path)
        key = (path, prefix, given, contents.digest)
        if key not in _libraries:
            _libraries[key] = Library(path, prefix, contents, handlers, legacy, types)
        return _libraries[key]


def loaded():
    """Returns the libraries that are loaded in this process."""
    with _lock:
        return list(_libraries.values())


class Library(Handlers):
    """The handlers of one file, as attributes and in ``handlers``.

    Targets of the original custom calls are in ``legacy``, under their own names.
    """

    def __init__(self, path, prefix=None, contents=None, handlers=None, legacy=None, types=None):
        self.path: str = path
        self.prefix: Optional[str] = prefix
        _jax.refuse_before_first()
        contents = contents or _file.read(path)
        _image.refuse_foreign(contents.data, path)
        #: A hash that identifies the contents of the file.
        self.digest: str = contents.digest
        self._owner = (path, contents.digest)
        self._given = {"handlers": dict(handlers or {}), "legacy": dict(legacy or {}), "types": dict(types or {})}
        types = _parse_types(path, types or {})
        described = _manifest.read_all(path, contents.data, required=not (handlers or legacy))
        if handlers or legacy:
            from . import _user_signature

            described = _user_signature.complete(path, described, handlers, legacy)
        described = described.values()
        specs = [spec for each, _ in described for spec in each.values()]
        if self._owner not in _images:
            _images[self._owner] = _file.load(contents, any(known == path for known, _ in _images))
        self._image = _images[self._owner]
        listed = _abi.legacy_targets(self._image)
        known = {name for name, *_ in listed}
        given = {spec.name: spec for _, targets in described for spec in targets if spec.name in (legacy or {})}
        listed += [self._exported_target(spec) for name, spec in given.items() if name not in known]
        plans = [(spec, _handler.refusal(spec), self._stages(spec)) for spec in specs]
        # All checks precede the first registration, so that a failed load registers nothing.
        self._generation = self._free_generation(plans, listed)
        self._name([(spec, _handler.Handler(spec, self._target(spec), path, why, prefix, self._given)) for spec, why, _ in plans])
        for name in dict.fromkeys(spec.library for spec in specs):
            _related_handlers.resolve(path, {spec.name: self.handlers[f"{name}.{spec.name}"] for spec in specs if spec.library == name})
        self.legacy: dict[str, _legacy.LegacyTarget] = {}
        declared = {spec.name: spec for _, targets in described for spec in targets}
        for name, _platform, _address, signature in listed:
            from . import _legacy

            target = _legacy.LegacyTarget(
                name, self._legacy_target(name), signature, declared.get(name), (path, prefix, self._given)
            )
            self.legacy.setdefault(name, target)
        registered = self._registered(plans)
        platforms = dict.fromkeys(platform for _, platform, _ in registered)
        _register_types(path, contents, self._image, types, platforms, self._stem(specs[0]) if specs else "")
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
        """Adds the handlers in ``made`` to ``handlers`` under their names."""
        names = [spec.name for spec, _ in made]
        self.handlers: dict[str, _handler.Handler] = {}
        for spec, handler in made:
            self.handlers[f"{spec.library}.{spec.name}"] = handler
            # Several libraries in one file may have handlers of the same name. Such handlers are only available as
            # `LIBRARY.HANDLER`.
            if names.count(spec.name) == 1:
                self.handlers[spec.name] = handler

    @staticmethod
    def _registered(plans):
        """Returns the handlers and platforms to register with this jaxlib, with the addresses of their stages."""
        return [(spec, platform, addresses) for spec, why, addresses in plans if why is None for platform in spec.platforms]

    def _free_generation(self, plans, listed):
        """Returns the first generation whose target names are free.

        Generations after 1 are used if an earlier build of the file has registered the names, or this build has
        registered them with different stages.
        """
        for self._generation in itertools.count(1):
            names = [(self._target(spec), platform, addresses) for spec, platform, addresses in self._registered(plans)]
            names += [(self._legacy_target(name), _legacy_platform(platform), address) for name, platform, address, _ in listed]
            mine = [(*self._owner, what) for *_, what in names]
            owners = [_targets.get((name, platform), own) for (name, platform, _), own in zip(names, mine)]
            for (name, *_), (path, *_) in zip(names, owners):
                if path != self.path:
                    raise LibraryError(f"{self.path}: `{name}` is already registered by {path}; load one of the two with prefix=")
            if owners == mine:
                return self._generation

    def _build(self):
        """Returns the suffix that names of targets have in generations after the first."""
        return "" if self._generation == 1 else f"@{self._generation}"

    def _legacy_target(self, name):
        # Programs call targets of the original custom calls by these names.
        return f"{self.prefix}.{name}{self._build()}" if self.prefix else f"{name}{self._build()}"

    def _stem(self, spec):
        return f"{self.prefix or spec.library}{self._build()}"

    def _target(self, spec):
        return f"{self._stem(spec)}.{spec.name}"

    def _exported_target(self, spec):
        """Returns the data of a target that only the caller describes, in the form of an entry of
        ``_abi.legacy_targets``."""
        platform = "CUDA" if spec.signature.startswith("gpu") else "Host"
        return spec.name, platform, self._address(spec.name), spec.signature

    def _address(self, symbol):
        return _file.address(self._image, self.path, symbol)

    def _stages(self, spec):
        addresses = {}
        for stage, symbol in spec.stages.items():
            address = self._address(symbol)
            # JAX cannot run the record stage yet.
            if stage != "record":
                addresses[stage] = address
        return addresses

    def __reduce__(self):
        return _restored, (self.path, self.prefix, self._given)


def _restored(path, prefix, given):
    return load(path, prefix, **given)


# A different process loads the library when it unpickles one of its handlers or targets.
def restored_handler(path, prefix, given, name):
    """Returns a handler that is being unpickled."""
    return load(path, prefix, **given)[name]


def restored_legacy(path, prefix, given, name):
    """Returns a target of the original custom calls that is being unpickled."""
    return load(path, prefix, **given).legacy[name]


def _legacy_platform(platform):
    return f"legacy {platform.lower()}"


def _parse_types(path, types):
    """Parses the ``types`` of ``load`` to ``{name: (symbol of the id, symbol of the info or None)}``."""
    found = {}
    for name, text in types.items():
        symbols = _TYPE_SYMBOLS.fullmatch(text) if isinstance(text, str) else None
        if symbols is None:
            raise LibraryError(
                f"{path}: types[{name!r}]: expected the symbols of its id and its info, as in 'State::id, state_info', got {text!r}"
            )
        found[name] = symbols.groups()
    return found


def _register_types(path, contents, image, types, platforms, prefix):
    """Registers state types with XLA, once per platform, before the handlers that use them.

    XLA accepts each name once, and handlers find their types by id. ``prefix`` makes the names unique among libraries
    and builds.
    """
    if not types:
        return
    if not _jax.registers_types():
        raise UnsupportedRuntimeError(
            f"{path}: registering the type {next(iter(types))!r} needs jaxlib 0.4.38 or newer, got {_jax.JAXLIB}; upgrade jaxlib"
        )
    functions = _image.read(contents.data, path).functions()
    for name, (id_symbol, info_symbol) in types.items():
        if info_symbol is None and _jax.TYPES_HAVE_INFO:
            raise LibraryError(
                f"{path}: jaxlib {_jax.JAXLIB} needs the info of the type {name!r}, to delete states; pass "
                f"types={{{name!r}: '{id_symbol}, INFO_SYMBOL'}}"
            )
        number = _symbol_address(path, image, functions, id_symbol)
        info = info_symbol and _symbol_address(path, image, functions, info_symbol)
        for platform in platforms:
            _jax.register_type(f"{prefix}.{name}", number, info, platform)


def _symbol_address(path, image, functions, symbol):
    if "::" in symbol:
        # Symbols are mangled as by C++ compilers.
        symbol = f"_ZN{''.join(f'{len(part)}{part}' for part in symbol.split('::'))}E"
    address = _file.address(image, path, symbol)
    # XLA_FFI_DECLARE_TYPE_ID_SYMBOL and XLA_FFI_DECLARE_TYPE_INFO_SYMBOL declare functions that return the address.
    return ctypes.CFUNCTYPE(ctypes.c_void_p)(address)() if symbol in functions else address
