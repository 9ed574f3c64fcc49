"""State types of libraries that do not register them themselves: upstream's C++ leaves that to its user."""

import collections
import ctypes
import re
import threading
from collections.abc import Mapping

from . import _image, _jax
from ._errors import LibraryError, UnsupportedRuntimeError

_lock = threading.RLock()
_infos = {}  # (address of the id, platform): the address of the info; XLA knows an id once
_named = collections.Counter()  # (name, platform): the types that a caller calls so; XLA knows a name once, too

_SYMBOL = re.compile(r"\w+(::\w+)*")


def parse(path, types):
    """``{name: (symbol of the id, symbol of the info or None)}`` of what ``load`` was given."""
    found = {}
    for name, text in types.items():
        symbols = [symbol.strip() for symbol in text.split(",")] if isinstance(text, str) else []
        if not isinstance(name, str) or not 1 <= len(symbols) <= 2 or not all(map(_SYMBOL.fullmatch, symbols)):
            raise LibraryError(
                f"{path}: types[{name!r}] is to be the symbols of its id and of its info, as in 'State::id, state_info', "
                f"objects or functions that return their address; got {text!r}"
            )
        found[name] = (symbols[0], symbols[1] if len(symbols) == 2 else None)
    return found


def register(path, contents, image, types: Mapping[str, tuple], platforms, prefix):
    """Registers the types with XLA, each once a platform, before the handlers that use them. XLA knows a name once, and
    handlers find their types by the id: ``prefix`` keeps those of libraries and of their builds apart."""
    if not types:
        return
    if not _jax.registers_types():
        raise UnsupportedRuntimeError(
            f"{path}: jaxlib {_jax.JAXLIB} has no function to register the type {next(iter(types))!r}: it takes 0.4.38 or newer"
        )
    functions = _image.read(contents.data, path).functions()
    for name, (id_symbol, info_symbol) in types.items():
        if info_symbol is None and _jax.TYPES_HAVE_INFO:
            raise LibraryError(
                f"{path}: jaxlib {_jax.JAXLIB} wants the info of the type {name!r}, by which it deletes states: "
                f"types={{{name!r}: '{id_symbol}, INFO_SYMBOL'}}"
            )
        number = _address(path, image, functions, id_symbol)
        info = info_symbol and _address(path, image, functions, info_symbol)
        for platform in platforms:
            with _lock:
                if _jax.TYPES_HAVE_INFO and _infos.get((number, platform), info) != info:
                    raise LibraryError(f"{path}: the type {id_symbol!r} is registered with another info than {info_symbol!r} already")
                if (number, platform) not in _infos:
                    full = f"{prefix}.{name}"
                    # The file may have been loaded with another type of this name.
                    before = _named[(full, platform)]
                    _jax.register_type(f"{full}@{before + 1}" if before else full, number, info, platform)
                    _infos[(number, platform)] = info
                    _named[(full, platform)] += 1


def _address(path, image, functions, symbol):
    exported = _mangled(symbol)
    try:
        found = getattr(image, exported)
    except (AttributeError, ValueError) as error:
        raise LibraryError(f"{path} does not export {exported!r}, which its caller names for a type") from error
    if exported not in functions:
        return ctypes.cast(found, ctypes.c_void_p).value
    # As XLA_FFI_DECLARE_TYPE_ID_SYMBOL and XLA_FFI_DECLARE_TYPE_INFO_SYMBOL declare them.
    found.restype, found.argtypes = ctypes.c_void_p, []
    return found()


def _mangled(symbol):
    """``State::id`` as C++ compilers name it; other symbols stay as they are."""
    if "::" not in symbol:
        return symbol
    return f"_ZN{''.join(f'{len(part)}{part}' for part in symbol.split('::'))}E"
