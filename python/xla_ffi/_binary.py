"""What the readers of library files share, whatever the format.

The files are not trusted: each offset and size is checked against the file before it is used.
"""

from ._errors import ManifestError


class BinaryFile:
    """A library's bytes, read piece by piece."""

    def __init__(self, data, path):
        self._data = data
        self._path = path

    def without_unique_symbols(self):
        """The file's bytes, without symbols of which a process has one only: most systems have none."""
        return bytes(self._data)

    def _bytes(self, offset, size, what):
        if offset + size > len(self._data):
            raise self._error(f"{what} reaches past the end of the file: it is damaged")
        return self._data[offset : offset + size]

    @staticmethod
    def _text(names, offset):
        end = names.find(b"\0", offset)
        return names[offset : end if end >= 0 else len(names)].decode("utf-8", "replace")

    def _error(self, why):
        return ManifestError(f"{self._path}: {why}")
