"""The locations of the SDK's files for C and C++: in the installed package, or in a checkout."""

import os
import pathlib

from ._errors import LibraryError

#: The command that installs the command-line tool, the embedded runtime and the recorder.
INSTALL_TOOLS = "pip install 'xla-ffi[tools]'"

_OWN = pathlib.Path(__file__).resolve().parent


def checkout():
    """Returns the folder of the SDK's checkout, or None if the package was installed without one."""
    named = os.environ.get("XLA_FFI_SDK")
    root = pathlib.Path(named) if named else _OWN.parents[1]
    return root if (root / "ffi/Cargo.toml").is_file() else None


def include() -> str:
    """Returns the folder of the SDK's C and C++ headers, for the compiler option ``-I``.

    Raises :class:`LibraryError` if the folder is missing.
    """
    sdk = checkout()
    for folder in (_OWN / "include", *([sdk / "include"] if sdk else [])):
        if (folder / "xla_ffi/handler.h").is_file():
            return str(folder)
    raise LibraryError(
        f"the SDK's headers are neither in {_OWN / 'include'} nor in a checkout; set XLA_FFI_SDK to a checkout"
    )


def cmake() -> str:
    """Returns the folder of the CMake package, for ``xla_ffi_DIR``. Raises :class:`LibraryError` if the folder is
    missing."""
    return _installed("lib/cmake/xla_ffi", "xla_ffi-config.cmake", "run pip install ./python in the checkout")


def lib() -> str:
    """Returns the folder of the embedded runtime, for the linker option ``-L``. Raises :class:`LibraryError` if it is
    missing."""
    return _installed("lib", "libxla_ffi_runtime.a", INSTALL_TOOLS)


def _installed(folder, file, remedy):
    found = _OWN / folder
    if not (found / file).is_file():
        raise LibraryError(f"{found}: {file} is missing; {remedy}")
    return str(found)
