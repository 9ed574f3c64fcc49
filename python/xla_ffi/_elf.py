"""Read a section or a data symbol from an ELF file, without running anything."""

import struct

from ._binary import BinaryFile

_SECTION = struct.Struct("<IIQQQQIIQQ")  # name type flags addr offset size link info align entsize
_SYMBOL = struct.Struct("<IBBHQQ")  # name info other shndx value size
_SYMTAB, _STRTAB, _DYNAMIC, _NOBITS, _DYNSYM = 2, 3, 6, 8, 11
_GLOBAL, _UNIQUE, _FUNCTION = 1, 10, 2
_RPATH, _RUNPATH = 15, 29
_PROCESSORS = {62: "x86_64", 183: "arm64"}


class Elf(BinaryFile):
    """A little-endian 64-bit ELF file."""

    #: Where manifests lie.
    manifest_section = ".xla_ffi_manifest"
    system = "Linux"

    def __init__(self, data, path):
        super().__init__(data, path)
        if data[:4] != b"\x7fELF":
            raise self._error("it is no ELF library")
        if len(data) < 64 or data[4] != 2 or data[5] != 1:
            raise self._error("it is no 64-bit little-endian ELF library")
        (machine,) = struct.unpack_from("<H", data, 18)
        self.processors = [_PROCESSORS.get(machine, f"ELF machine {machine}")]
        (shoff,) = struct.unpack_from("<Q", data, 40)
        shentsize, shnum, shstrndx = struct.unpack_from("<HHH", data, 58)
        self._sections = []
        if shoff == 0:
            return
        if shentsize != _SECTION.size:
            raise self._error(f"its section headers have {shentsize} bytes, expected {_SECTION.size}")
        if shnum == 0 or shstrndx == 0xFFFF:
            # More sections than 16 bits count: section 0 has the real numbers.
            head = _SECTION.unpack(self._bytes(shoff, _SECTION.size, "section header 0"))
            shnum = shnum or head[5]
            shstrndx = head[6] if shstrndx == 0xFFFF else shstrndx
        table = self._bytes(shoff, shnum * _SECTION.size, "its section headers")
        self._sections = [_SECTION.unpack_from(table, i * _SECTION.size) for i in range(shnum)]
        self._names = self._content(shstrndx, "its section names")

    def section(self, name):
        """The bytes of the section called ``name``, or None."""
        for index, header in enumerate(self._sections):
            if self._text(self._names, header[0]) == name:
                if header[1] == _NOBITS:
                    raise self._error(f"section {name} has no bytes in the file")
                return self._content(index, f"section {name}")
        return None

    def symbols(self, wanted):
        """``{name: bytes}`` of the defined data symbols for whose name ``wanted(name)`` is true."""
        found = {}
        for header in self._sections:
            if header[1] not in (_SYMTAB, _DYNSYM):
                continue
            table = self._bytes(header[4], header[5], "a symbol table")
            names = self._content(header[6], "the symbol names")
            for offset in range(0, len(table) - _SYMBOL.size + 1, _SYMBOL.size):
                name, _info, _other, shndx, value, size = _SYMBOL.unpack_from(table, offset)
                text = self._text(names, name)
                if text and 0 < shndx < len(self._sections) and wanted(text):
                    home = self._sections[shndx]
                    start = value - home[3]
                    if home[1] == _NOBITS or start < 0 or start + size > home[5]:
                        raise self._error(f"symbol {text} lies outside its section")
                    found[text] = self._bytes(home[4] + start, size, f"symbol {text}")
        return found

    def functions(self):
        """The names of the defined functions."""
        found = set()
        for header in self._sections:
            if header[1] in (_SYMTAB, _DYNSYM):
                table = self._bytes(header[4], header[5], "a symbol table")
                names = self._content(header[6], "the symbol names")
                entries = _SYMBOL.iter_unpack(table[: len(table) // _SYMBOL.size * _SYMBOL.size])
                found |= {self._text(names, entry[0]) for entry in entries if entry[1] & 15 == _FUNCTION and entry[3]}
        return found

    def without_unique_symbols(self):
        """The file's bytes, its symbols none of those of which a process has one only (STB_GNU_UNIQUE).

        C++ compilers make inline variables and the like so: a second library would use the first one's.
        """
        data = bytearray(self._data)
        for header in self._sections:
            if header[1] in (_SYMTAB, _DYNSYM):
                self._bytes(header[4], header[5], "a symbol table")
                for at in range(header[4], header[4] + header[5] - _SYMBOL.size + 1, _SYMBOL.size):
                    if data[at + 4] >> 4 == _UNIQUE:
                        data[at + 4] = _GLOBAL << 4 | data[at + 4] & 15
        return bytes(data)

    def origin_paths(self):
        """The search paths for dependencies that begin at the file's own folder (DT_RPATH, DT_RUNPATH)."""
        found = []
        for header in self._sections:
            if header[1] == _DYNAMIC:
                table = self._bytes(header[4], header[5], "the dynamic section")
                names = self._content(header[6], "the dynamic section's names")
                entries = struct.iter_unpack("<QQ", table[: len(table) // 16 * 16])
                found += [self._text(names, value) for tag, value in entries if tag in (_RPATH, _RUNPATH)]
        return [path for path in found if "ORIGIN" in path]

    def _content(self, index, what):
        if index >= len(self._sections):
            raise self._error(f"{what} is in section {index} of {len(self._sections)}")
        header = self._sections[index]
        return b"" if header[1] == _NOBITS else self._bytes(header[4], header[5], what)
