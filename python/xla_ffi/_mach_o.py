"""Read a section from a Mach-O file, or from the part of a fat one that is for this machine, without running anything."""

import platform
import struct

from ._binary import BinaryFile

_SEGMENT_64, _SYMTAB, _RPATH = 0x19, 0x2, 0x8000001C
_SECTION = struct.Struct("<16s16sQQIIIIIIII")  # name segment addr size offset align reloff nreloc flags reserved
_SYMBOL = struct.Struct("<IBBHQ")  # name type sect desc value
_STAB, _TYPE, _EXTERNAL, _IN_SECTION = 0xE0, 0x0E, 0x01, 0x0E
_CODE = 0x80000400  # instructions alone, or some
_ZEROFILL = (0x1, 0xC, 0x12)
_PROCESSORS = {0x01000007: "x86_64", 0x0100000C: "arm64"}
_LARGEST_COUNT = 1 << 16


class MachO(BinaryFile):
    """A 64-bit Mach-O file, thin or fat."""

    #: Where manifests lie: a name has at most 16 bytes.
    manifest_section = "__xla_ffi"
    system = "macOS"

    def __init__(self, data, path):
        super().__init__(data, path)
        self.processors = self._choose_part()
        head = self._bytes(0, 32, "its head")
        magic, _cpu, _subtype, _kind, count, size = struct.unpack_from("<IIIIII", head)
        if magic != 0xFEEDFACF:
            raise self._error("it is no 64-bit little-endian Mach-O library")
        commands = self._bytes(32, size, "its load commands")
        self._sections, self._symbols, self._rpaths = [], [], []
        at = 0
        for _ in range(min(count, _LARGEST_COUNT)):
            if at + 8 > len(commands):
                raise self._error("its load commands end too early: it is damaged")
            command, length = struct.unpack_from("<II", commands, at)
            if length < 8 or at + length > len(commands):
                raise self._error("a load command reaches past the others: it is damaged")
            self._command(command, commands[at : at + length])
            at += length

    def _choose_part(self):
        """Leaves the part for this machine of a fat file, or its first one; tells the processors of all."""
        magic = bytes(self._data[:4])
        if magic not in (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"):
            head = self._bytes(0, 8, "its head")
            return [self._processor(struct.unpack_from("<I", head, 4)[0])]
        entry = struct.Struct(">IIIII" if magic[3] == 0xBE else ">IIQQII")
        (count,) = struct.unpack(">I", self._bytes(4, 4, "its head"))
        if count > 64:
            raise self._error(f"it claims {count} parts: it is damaged")
        table = self._bytes(8, count * entry.size, "the list of its parts")
        parts = {}
        for fields in entry.iter_unpack(table):
            parts.setdefault(self._processor(fields[0]), self._bytes(fields[2], fields[3], "a part of it"))
        if not parts:
            raise self._error("it is a fat file without a part")
        ours = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
        self._data = parts.get(ours, next(iter(parts.values())))
        return list(parts)

    @staticmethod
    def _processor(number):
        return _PROCESSORS.get(number, f"processor {number:#x}")

    def _command(self, command, data):
        if command == _SEGMENT_64 and len(data) >= 72:
            (count,) = struct.unpack_from("<I", data, 64)
            if 72 + count * _SECTION.size > len(data):
                raise self._error("a segment claims more sections than it has: it is damaged")
            self._sections += [_SECTION.unpack_from(data, 72 + i * _SECTION.size) for i in range(count)]
        elif command == _SYMTAB and len(data) >= 24:
            at, count, strings, size = struct.unpack_from("<IIII", data, 8)
            table = self._bytes(at, count * _SYMBOL.size, "its symbol table")
            names = self._bytes(strings, size, "the symbol names")
            self._symbols += [(self._text(names, entry[0]), entry) for entry in _SYMBOL.iter_unpack(table)]
        elif command == _RPATH and len(data) >= 12:
            self._rpaths.append(self._text(data, struct.unpack_from("<I", data, 8)[0]))

    def section(self, name):
        """The bytes of the section called ``name``, or None."""
        for header in self._sections:
            if header[0].rstrip(b"\0") == name.encode():
                if header[8] & 0xFF in _ZEROFILL:
                    raise self._error(f"section {name} has no bytes in the file")
                return self._bytes(header[4], header[3], f"section {name}")
        return None

    def symbols(self, wanted):
        """The names, as C has them, of the defined symbols for which ``wanted(name)`` is true; without their bytes."""
        return {name: b"" for name in self._defined() if wanted(name)}

    def functions(self):
        """The names of the defined functions."""
        found = set()
        for name, (_name, kind, section, _desc, _value) in self._symbols:
            if not kind & _STAB and kind & _TYPE == _IN_SECTION and 0 < section <= len(self._sections):
                if self._sections[section - 1][8] & _CODE:
                    found.add(name[1:] if name.startswith("_") else name)
        return found

    def origin_paths(self):
        """The search paths for dependencies that begin at the file's own folder (LC_RPATH)."""
        return [path for path in self._rpaths if path.startswith("@loader_path")]

    def _defined(self):
        for name, (_name, kind, _section, _desc, _value) in self._symbols:
            if not kind & _STAB and kind & _TYPE and kind & _EXTERNAL:
                yield name[1:] if name.startswith("_") else name
