"""The errors of this package."""

import difflib


class LibraryError(Exception):
    """Raised if a library cannot be used. The message contains the library, the reason and the remedy."""


class ManifestError(LibraryError):
    """Raised if a file has no manifest, or its manifest cannot be read."""


class FileMissingError(ManifestError, FileNotFoundError):
    """Raised if a library's file does not exist. This class is also a ``FileNotFoundError``."""


class CompileError(LibraryError):
    """Raised if source text does not compile. The message contains the compiler's output."""


class UnsupportedRuntimeError(LibraryError):
    """Raised if the jaxlib of this process lacks something that a handler needs."""


def no_handler(path, name, known, shown):
    """Returns the error for an unknown handler, with the closest match among ``known``, or otherwise the names in
    ``shown``."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"the library has {', '.join(f'`{each}`' for each in shown) or 'none'}"
    return AttributeError(f"{path}: unknown handler `{name}`; {hint}")
