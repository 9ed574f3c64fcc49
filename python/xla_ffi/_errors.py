"""The errors of this package."""

import difflib


class LibraryError(Exception):
    """A library cannot be used; the text says which, why, and what helps."""


class ManifestError(LibraryError):
    """A file holds no manifest, or one that cannot be understood."""


class FileMissingError(ManifestError, FileNotFoundError):
    """There is no such file; ``except FileNotFoundError`` finds it, too."""


class CompileError(LibraryError):
    """A source text does not compile; the text is what the compiler says."""


class UnsupportedRuntimeError(LibraryError):
    """The jaxlib of this process lacks something that a handler needs."""


def no_handler(path, name, known, shown):
    """What to raise where a library is asked for a handler that it lacks: the nearest of ``known``, else those of ``shown``."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(shown)}"
    return AttributeError(f"{path} has no handler {name!r}: {hint}")
