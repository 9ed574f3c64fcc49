"""State types of libraries that do not register them themselves: upstream's C++ leaves that to its user."""

import ctypes
import re

from . import _file, _image, _jax
from ._errors import LibraryError, UnsupportedRuntimeError

_registered = set()  # (address of the id, platform); XLA knows an id once

_SYMBOLS = re.compile(r"\s*(\w+(?:::\w+)*)\s*(?:,\s*(\w+(?:::\w+)*)\s*)?")


def parse(path, types):
    """``{name: (symbol of the id, symbol of the info or None)}`` of what ``load`` was given."""
    found = {}
    for name, text in types.items():
        symbols = _SYMBOLS.fullmatch(text) if isinstance(text, str) else None
        if symbols is None:
            raise LibraryError(
                f"{path}: types[{name!r}] is to be the symbols of its id and of its info, as in 'State::id, state_info', "
                f"objects or functions that return their address; got {text!r}"
            )
        found[name] = symbols.groups()
    return found


def register(path, contents, image, types, platforms, prefix):
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
            if (number, platform) not in _registered:
                _jax.register_type(f"{prefix}.{name}", number, info, platform)
                _registered.add((number, platform))


def _address(path, image, functions, symbol):
    if "::" in symbol:
        # As C++ compilers name it.
        symbol = f"_ZN{''.join(f'{len(part)}{part}' for part in symbol.split('::'))}E"
    address = _file.address(image, path, symbol)
    # Functions are as XLA_FFI_DECLARE_TYPE_ID_SYMBOL and XLA_FFI_DECLARE_TYPE_INFO_SYMBOL declare them.
    return ctypes.CFUNCTYPE(ctypes.c_void_p)(address)() if symbol in functions else address
