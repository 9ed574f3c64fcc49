"""Read a section from a DLL, without running anything."""

import struct

from ._binary import BinaryFile

_SECTION = struct.Struct("<8sIIIIIIHHI")  # name size addr raw_size raw … characteristics
_EXECUTABLE = 0x20000000
_PROCESSORS = {0x8664: "x86_64", 0xAA64: "arm64"}


class Pe(BinaryFile):
    """A 64-bit DLL."""

    #: Where manifests lie: a name has at most 8 bytes.
    manifest_section = ".xla_ffi"
    system = "Windows"

    def __init__(self, data, path):
        super().__init__(data, path)
        (at,) = struct.unpack("<I", self._bytes(60, 4, "its head"))
        head = self._bytes(at, 24, "its head")
        if head[:4] != b"PE\0\0":
            raise self._error("it is no DLL")
        machine, count = struct.unpack_from("<HH", head, 4)
        (size,) = struct.unpack_from("<H", head, 20)
        self.processors = [_PROCESSORS.get(machine, f"processor {machine:#x}")]
        optional = self._bytes(at + 24, size, "its optional head")
        if size < 112 or optional[:2] != b"\x0b\x02":
            raise self._error("it is no 64-bit DLL")
        directories = struct.unpack_from("<I", optional, 108)[0]
        self._exports_at = struct.unpack_from("<I", optional, 112)[0] if directories and size >= 120 else 0
        table = self._bytes(at + 24 + size, count * _SECTION.size, "its section headers")
        self._sections = list(_SECTION.iter_unpack(table))

    def section(self, name):
        """The bytes of the section called ``name``, or None."""
        for header in self._sections:
            if header[0].rstrip(b"\0") == name.encode():
                return self._bytes(header[4], min(header[1], header[3]), f"section {name}")
        return None

    def symbols(self, wanted):
        """The exported names for which ``wanted(name)`` is true; without their bytes."""
        return {name: b"" for name, _address in self._exports() if wanted(name)}

    def functions(self):
        """The names of the exported functions."""
        return {name for name, address in self._exports() if self._is_code(address)}

    def origin_paths(self):
        """Dependencies are looked for beside the file first, whatever it says."""
        return []

    def _is_code(self, address):
        return any(
            header[9] & _EXECUTABLE and header[2] <= address < header[2] + header[1] for header in self._sections
        )

    def _exports(self):
        if not self._exports_at:
            return
        count, names_count, functions, names, ordinals = struct.unpack_from("<IIIII", self._at(self._exports_at, 40), 20)
        functions = struct.unpack(f"<{count}I", self._at(functions, count * 4))
        ordinals = struct.unpack(f"<{names_count}H", self._at(ordinals, names_count * 2))
        for name, ordinal in zip(struct.unpack(f"<{names_count}I", self._at(names, names_count * 4)), ordinals):
            if ordinal < count:
                text = self._at(name, 1, whole=True)
                yield self._text(text, 0), functions[ordinal]

    def _at(self, address, size, whole=False):
        """So many bytes at an address of the loaded library, or all from there to the section's end."""
        for header in self._sections:
            start = address - header[2]
            if 0 <= start < header[3]:
                return self._bytes(header[4] + start, header[3] - start if whole else size, "its exports")
        raise self._error("its exports lie in no section: it is damaged")
