"""Handlers compiled from source text, for notebooks, with a cache."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from . import _image, _library, _user_signature
from ._errors import CompileError, LibraryError
from ._installation import checkout, include

#: Number of lines of compiler output that an error shows.
_LINES = 60
#: Number of precompiled headers in the cache. Each has about 75 MB.
_PRECOMPILED = 3
#: Matches C++ that includes only the standard library before the SDK's header, so that the header may be included
#: first.
_HEADER_FIRST = re.compile(r"\s*((//.*\n|#include <\w+>)\s*)*#include [<\"]xla/ffi/api/ffi\.h[>\"]")

_CARGO = """\
[package]
name = "{name}"
version = "0.0.0"
edition = "2024"

[lib]
crate-type = ["cdylib"]
path = "{name}.rs"

[dependencies]
xla-ffi = {{ path = {sdk} }}

[profile.release]
debug = "line-tables-only"

[workspace]
"""


def load_inline(
    *,
    c: Optional[str] = None,
    cpp: Optional[str] = None,
    rust: Optional[str] = None,
    name: str = "inline",
    flags: Sequence[str] = (),
    handlers: Optional[_user_signature.Given] = None,
    legacy: Optional[Mapping[str, str]] = None,
    types: Optional[Mapping[str, str]] = None,
) -> Any:
    """Compiles the text of one source file and loads it. Returns a :class:`Library`::

        lib = xla_ffi.load_inline(c=open("norm.c").read())

    The text is a whole file, with its ``#include`` of ``xla_ffi/handler.h`` or ``xla/ffi/api/ffi.h``, or its
    ``use xla_ffi::…`` and ``library!``. Pass one of ``c``, ``cpp`` and ``rust``.

    Compiled libraries are cached in the folder ``inline`` of ``XLA_FFI_CACHE``, by default ``~/.cache/xla-ffi``. The
    key is the text with everything it includes, the name, the flags, the SDK and the compiler. C++ that includes
    ``xla/ffi/api/ffi.h`` starts from a precompiled copy in the cache, 50 to 75 MB per compiler and ``flags``. The
    newest three copies are kept.

    Targets are named ``NAME-DIGEST.HANDLER``. If the text or an included file changes, the new library has new targets,
    and functions that were already jitted keep the old code.

    Args:
        c: The text of a C file.
        cpp: The text of a C++ file.
        rust: The text of a Rust file. This needs a checkout of the SDK: ``XLA_FFI_SDK``, or the checkout that contains
            this package.
        name: The name of the library. Letters, digits and ``_``.
        flags: Options of the compiler: ``cc`` or ``c++``, which the variables ``CC`` and ``CXX`` override, or
            ``cargo build``.
        handlers: As in :func:`load`, for handlers that the text does not describe itself.
        legacy: As in :func:`load`.
        types: As in :func:`load`.

    Raises:
        CompileError: The text does not compile. The error has the compiler's output, with line numbers of the text.
    """
    sources = {language: text for language, text in (("c", c), ("cpp", cpp), ("rust", rust)) if text is not None}
    if len(sources) != 1:
        raise TypeError(f"load_inline: expected one of c=, cpp= and rust=, got {', '.join(sources) or 'none'}")
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"load_inline: name=: expected letters, digits and _, got {name!r}")
    ((language, text),) = sources.items()
    if isinstance(flags, str):
        raise TypeError(f"load_inline: flags=: expected a list of str, as in ['-DN=3'], got {flags!r}")
    build = (_Rust if language == "rust" else _Compiler)(language, name, tuple(flags))
    digest = build.digest(text)
    path = _cache() / digest / _image.file_name(name)
    if not path.is_file():
        _build(lambda folder: build.run(text, folder), path.parent)
    return _library.load(path, f"{name}-{digest[:12]}", handlers=handlers, legacy=legacy, types=types)


def _cache():
    root = os.environ.get("XLA_FFI_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "xla-ffi")
    return pathlib.Path(root) / "inline"


def _build(run, folder):
    """Runs a build in a new folder and renames the folder to ``folder`` when it is complete."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    except OSError as error:
        raise LibraryError(f"{folder.parent}: cannot be written: {error.strerror}; set XLA_FFI_CACHE to a different folder") from error
    try:
        run(made)
        # A different process may have finished the same build first.
        with contextlib.suppress(OSError):
            os.rename(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _compiled(command, folder, what, text=None):
    """Runs a compiler and returns its output. Raises :class:`CompileError` if it fails."""
    try:
        done = subprocess.run(command, cwd=folder, input=text, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise CompileError(f"{what}: {command[0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().split("\n")
        raise CompileError("\n".join([f"{what} does not compile:", *lines[:_LINES]]))
    return done.stdout


def _stamps(*folders):
    """Returns a value that changes when a file of the SDK changes."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".rs", ".toml", ".lock") and "target" not in path.parts[len(folder.parts) :]:
                status = path.stat()
                found.append((str(path), status.st_size, status.st_mtime_ns))
    return found


def _program(text, what):
    """Returns the command of a compiler, and a value that changes when the compiler changes."""
    words = shlex.split(text)
    path = shutil.which(words[0])
    if path is None:
        raise CompileError(f"{what}: {words[0]} is not on PATH; install it")
    real = os.path.realpath(path)
    status = os.stat(real)
    return words, (words, real, status.st_size, status.st_mtime_ns)


class _Compiler:
    """A compiler of C or C++."""

    def __init__(self, language, name, flags):
        self._file = f"{name}.{'c' if language == 'c' else 'cc'}"
        self._name, self._flags = name, flags
        variable, other = ("CC", "cc") if language == "c" else ("CXX", "c++")
        self._words, self._compiler = _program(os.environ.get(variable) or other, self._file)
        self._options = ["-std=c11" if language == "c" else "-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", f"-I{include()}"]
        self._language = "c" if language == "c" else "c++"

    def digest(self, text):
        # The preprocessed text may depend on macros that the compiler or its flags define.
        command = [*self._words, *self._options, *self._flags, "-E", "-P", "-x", self._language, "-"]
        whole = _compiled(command, include(), self._file, f'#line 1 "{self._file}"\n{text}')
        return _digest(text, whole, self._file, self._flags, self._compiler, self._options)

    def run(self, text, folder):
        (folder / self._file).write_text(text, encoding="utf-8")
        file = [self._file, "-o", _image.file_name(self._name), *self._flags, "-lm"]
        if self._language == "c++" and _HEADER_FIRST.match(text):
            # Compilers may refuse a precompiled header. Then compile again without the precompiled header, so that
            # errors refer to the original text.
            with contextlib.suppress(CompileError):
                _compiled([*self._words, *self._options, "-include", self._precompiled(), *file], folder, self._file)
                return
        _compiled([*self._words, *self._options, *file], folder, self._file)

    def _precompiled(self):
        """Returns a header that includes the SDK's header.

        The precompiled form is next to the header. g++ and clang++ find the precompiled form by its name.
        """
        headers = _stamps(pathlib.Path(include()))
        folder = _cache() / f"header-{_digest('', self._flags, self._compiler, self._options, headers)}"
        if not folder.is_dir():

            def run(made):
                (made / "ffi.h").write_text('#include "xla/ffi/api/ffi.h"\n', encoding="utf-8")
                # clang++ opens the original header again, so the path must stay valid.
                file = ["-x", "c++-header", os.path.join(include(), "xla/ffi/api/ffi.h"), "-o", "ffi.h.gch"]
                _compiled([*self._words, *self._options, *self._flags, *file], made, "xla/ffi/api/ffi.h")

            _build(run, folder)
            older = sorted(folder.parent.glob("header-*"), key=lambda each: each.stat().st_mtime, reverse=True)
            for each in older[_PRECOMPILED:]:
                shutil.rmtree(each, ignore_errors=True)
        return str(folder / "ffi.h")


class _Rust:
    """A build by cargo, of a package that depends on the checkout's crates."""

    def __init__(self, _language, name, flags):
        self._name, self._flags = name, flags
        self._sdk = checkout()
        if self._sdk is None:
            raise LibraryError("load_inline: rust= needs a checkout of the SDK; set XLA_FFI_SDK to its folder")
        self._words, self._compiler = _program(os.environ.get("CARGO") or "cargo", f"{name}.rs")

    def digest(self, text):
        crates = [self._sdk / crate for crate in ("ffi", "ffi-sys")]
        return _digest(text, f"{self._name}.rs", self._flags, self._compiler, os.environ.get("RUSTFLAGS", ""), _stamps(*crates))

    def run(self, text, folder):
        import fcntl

        (folder / f"{self._name}.rs").write_text(text, encoding="utf-8")
        (folder / "Cargo.toml").write_text(_CARGO.format(name=self._name, sdk=json.dumps(str(self._sdk / "ffi"))), encoding="utf-8")
        if (self._sdk / "Cargo.lock").is_file():
            # Use the dependency versions that are already downloaded.
            shutil.copy(self._sdk / "Cargo.lock", folder / "Cargo.lock")
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or folder.parent / "target")
        target.mkdir(parents=True, exist_ok=True)
        # All builds in this folder have the same output name.
        with open(target / "inline.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = [*self._words, "build", "--quiet", "--release", "--target-dir", str(target), *self._flags]
            _compiled(command, folder, f"{self._name}.rs")
            file = _image.file_name(self._name)
            shutil.copy(target / "release" / file, folder / file)


def _digest(text, *rest):
    return hashlib.blake2b(repr((text, *rest)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
