"""The errors of this package."""

import difflib


class LibraryError(Exception):
    """A library cannot be used; the text names it, the reason and the fix."""


class ManifestError(LibraryError):
    """A file has no manifest, or an unreadable one."""


class FileMissingError(ManifestError, FileNotFoundError):
    """There is no such file; also a ``FileNotFoundError``."""


class CompileError(LibraryError):
    """Source text does not compile; the text contains the compiler's output."""


class UnsupportedRuntimeError(LibraryError):
    """The jaxlib of this process lacks something that a handler needs."""


def no_handler(path, name, known, shown):
    """Returns the error for a handler that a library lacks: it names the nearest of ``known``, otherwise those of ``shown``."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"the library has {', '.join(f'`{each}`' for each in shown) or 'none'}"
    return AttributeError(f"{path}: unknown handler `{name}`; {hint}")
