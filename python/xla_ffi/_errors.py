"""The errors of this package."""


class LibraryError(Exception):
    """A library cannot be used; the text says which, why, and what helps."""


class ManifestError(LibraryError):
    """A file holds no manifest, or one that cannot be understood."""


class CompileError(LibraryError):
    """A source text does not compile; the text is what the compiler says."""


class UnsupportedRuntimeError(LibraryError):
    """The jaxlib of this process lacks something that a handler needs."""
