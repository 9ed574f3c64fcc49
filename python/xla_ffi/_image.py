"""Reads a library's file before it is loaded: its system and processor, its manifest, and its functions."""

import platform
import re
import struct
import sys

from ._errors import LibraryError, ManifestError

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def file_name(name):
    """Returns the file name of a library on this system: ``libNAME.so``, ``libNAME.dylib`` or ``NAME.dll``."""
    prefix = "" if sys.platform == "win32" else "lib"
    return prefix + name + {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def processor():
    """Returns the name of this machine's processor, as in the classes below."""
    return _PROCESSORS.get(platform.machine().lower(), platform.machine())


def read(data, path):
    """Parses a library file: returns an :class:`Elf`, a :class:`MachO` or a :class:`Pe`, depending on its first
    bytes."""
    formats = {b"\x7fELF": Elf, b"\xcf\xfa\xed\xfe": MachO, b"\xca\xfe\xba\xbe": MachO, b"\xca\xfe\xba\xbf": MachO}
    kind = formats.get(bytes(data[:4]), Pe if data[:2] == b"MZ" else None)
    if kind is None:
        raise ManifestError(f"{path}: not an ELF, Mach-O or PE library")
    try:
        return kind(data)
    except (struct.error, ValueError, IndexError) as error:
        raise ManifestError(f"{path}: not a 64-bit little-endian library, or damaged: {error}") from error


def refuse_foreign(data, path):
    """Raises a LibraryError if a library is for a different system or processor than this one."""
    image = read(data, path)
    system = _SYSTEMS.get(sys.platform, sys.platform)
    if image.system != system or processor() not in image.processors:
        built = " and ".join(image.processors)
        raise LibraryError(f"{path}: expected a library for {system} on {processor()}, got one for {image.system} on {built}")


class _File:
    """The bytes of a library file, with functions that read parts of it."""

    def __init__(self, data):
        self.data = data

    def bytes(self, offset, size):
        """Returns ``size`` bytes at an offset. Raises a ValueError if the file is shorter."""
        if offset + size > len(self.data):
            raise ValueError("the file is truncated")
        return self.data[offset : offset + size]

    def structs(self, kind, offset, count):
        """Returns ``count`` structures at an offset, as tuples of their fields."""
        return list(kind.iter_unpack(self.bytes(offset, count * kind.size)))

    @staticmethod
    def text(names, offset=0):
        """Returns the NUL-terminated text at an offset."""
        end = names.find(b"\0", offset)
        return bytes(names[offset : end if end >= 0 else len(names)]).decode("utf-8", "replace")

    def without_unique_symbols(self):
        """Returns the file's bytes without process-wide unique symbols, which exist only in ELF files."""
        return bytes(self.data)


class Elf(_File):
    """A 64-bit little-endian ELF file."""

    system = "Linux"
    _SECTION = struct.Struct("<IIQQQQIIQQ")  # fields: name type flags addr offset size link info align entsize
    _SYMBOL = struct.Struct("<IBBHQQ")  # fields: name info other shndx value size
    _SYMTAB, _NOBITS, _DYNSYM = 2, 8, 11
    _GLOBAL, _UNIQUE, _FUNCTION = 1, 10, 2

    def __init__(self, data):
        super().__init__(data)
        if data[4:6] != b"\2\1":
            raise ValueError("wrong class or byte order in the header")
        (machine,) = struct.unpack_from("<H", data, 18)
        self.processors = [{62: "x86_64", 183: "arm64"}.get(machine, f"ELF machine {machine}")]
        (table,) = struct.unpack_from("<Q", data, 40)
        count, names = struct.unpack_from("<HH", data, 60)
        self._sections = self.structs(self._SECTION, table, count)
        names = self._content(self._sections[names]) if count else b""
        found = [each for each in self._sections if self.text(names, each[0]) == ".xla_ffi_manifest"]
        self.manifest = self._content(found[0]) if found else None
        if not count:  # Loaders do not need section headers, so a file may lack them.
            self.manifest = self._loaded_manifests()

    def _loaded_manifests(self):
        """Returns the manifests, or None if the file has none. A manifest starts at a multiple of 16 bytes and is found
        by its first bytes."""
        found = b""
        for match in re.finditer(b"XLAFFIMF", self.data):
            at = match.start()
            end = at + 16 + int.from_bytes(self.data[at + 12 : at + 16], "little")
            if at % 16 == 0 and end <= len(self.data):
                found += bytes(self.data[at:end]) + bytes(-end % 16)
        return found or None

    def _content(self, section):
        return self.bytes(section[4], 0 if section[1] == self._NOBITS else section[5])

    def functions(self):
        """Returns the names of the exported functions."""
        if not self._sections:
            raise LibraryError("unknown which symbols are functions, because the library has no section headers; link it with them")
        found = set()
        for section in self._sections:
            if section[1] == self._DYNSYM:
                names = self._content(self._sections[section[6]])
                entries = self.structs(self._SYMBOL, section[4], section[5] // self._SYMBOL.size)
                found |= {self.text(names, entry[0]) for entry in entries if entry[1] & 15 == self._FUNCTION and entry[3]}
        return found

    def without_unique_symbols(self):
        """Returns the file's bytes with unique symbols (STB_GNU_UNIQUE) changed to global ones.

        A unique symbol exists once per process. C++ compilers use such symbols for inline variables, for example.
        Without the change, a second copy of the library would use the variables of the first copy.
        """
        data = bytearray(self.data)
        for section in self._sections:
            if section[1] in (self._SYMTAB, self._DYNSYM):
                end = min(section[4] + section[5], len(data))
                for at in range(section[4], end - self._SYMBOL.size + 1, self._SYMBOL.size):
                    if data[at + 4] >> 4 == self._UNIQUE:
                        data[at + 4] = self._GLOBAL << 4 | data[at + 4] & 15
        return bytes(data)


class MachO(_File):
    """A 64-bit Mach-O file.

    Of a fat file, only the part for this machine is used, or the first part if no part is for this machine.
    """

    system = "macOS"
    _SECTION = struct.Struct("<16s16sQQIIIIIIII")  # fields: name segment addr size offset align reloff nreloc flags reserved
    _SYMBOL = struct.Struct("<IBBHQ")  # fields: name type sect desc value
    _CODE = 0x80000400  # section flags: only instructions, or some instructions

    def __init__(self, data):
        super().__init__(data)
        self.processors = self._choose_part()
        magic, _cpu, _subtype, _kind, count, _size = struct.unpack_from("<IIIIII", self.data)
        if magic != 0xFEEDFACF:
            raise ValueError("wrong class or byte order in the header")
        self._sections, self._symbols, at = [], [], 32
        for _ in range(count):
            command, length = struct.unpack_from("<II", self.data, at)
            if length < 8:
                raise ValueError("a load command is too short")
            if command == 0x19:  # the command LC_SEGMENT_64
                (sections,) = struct.unpack_from("<I", self.data, at + 64)
                self._sections += self.structs(self._SECTION, at + 72, sections)
            elif command == 0x2:  # the command LC_SYMTAB
                self._symbols.append(struct.unpack_from("<IIII", self.data, at + 8))
            at += length
        # Names of sections have at most 16 bytes.
        found = [each for each in self._sections if self.text(each[0]) == "__xla_ffi"]
        self.manifest = self.bytes(found[0][4], found[0][3]) if found else None

    def _choose_part(self):
        """Selects one part of a fat file and returns the processors of all parts."""
        name = lambda number: {0x01000007: "x86_64", 0x0100000C: "arm64"}.get(number, f"processor {number:#x}")
        if self.data[:1] != b"\xca":
            return [name(struct.unpack_from("<I", self.data, 4)[0])]
        entry = struct.Struct(">IIIII" if self.data[3] == 0xBE else ">IIQQII")
        (count,) = struct.unpack_from(">I", self.data, 4)
        parts = {name(fields[0]): self.bytes(fields[2], fields[3]) for fields in self.structs(entry, 8, count)}
        if not parts:
            raise ValueError("a fat file without parts")
        self.data = parts.get(processor(), next(iter(parts.values())))
        return list(parts)

    def functions(self):
        """Returns the names of the defined functions as C spells them."""
        found = set()
        for at, count, strings, size in self._symbols:
            names = self.bytes(strings, size)
            for name, kind, section, _desc, _value in self.structs(self._SYMBOL, at, count):
                # Keep symbols that are defined in a section. Skip debugger symbols.
                if kind & 0xEE == 0x0E and 0 < section <= len(self._sections) and self._sections[section - 1][8] & self._CODE:
                    found.add(self.text(names, name).removeprefix("_"))
        return found


class Pe(_File):
    """A 64-bit DLL."""

    system = "Windows"
    _SECTION = struct.Struct("<8sIIIIIIHHI")  # fields: name size addr raw_size raw … characteristics
    _EXECUTABLE = 0x20000000

    def __init__(self, data):
        super().__init__(data)
        (at,) = struct.unpack_from("<I", data, 60)
        machine, count = struct.unpack_from("<HH", data, at + 4)
        (size,) = struct.unpack_from("<H", data, at + 20)
        if data[at : at + 4] != b"PE\0\0" or data[at + 24 : at + 26] != b"\x0b\x02":
            raise ValueError("wrong class or byte order in the header")
        self.processors = [{0x8664: "x86_64", 0xAA64: "arm64"}.get(machine, f"processor {machine:#x}")]
        (self._exports,) = struct.unpack_from("<I", data, at + 24 + 112) if size >= 120 else (0,)
        self._sections = self.structs(self._SECTION, at + 24 + size, count)
        # Names of sections have at most 8 bytes.
        found = [each for each in self._sections if self.text(each[0]) == ".xla_ffi"]
        self.manifest = self.bytes(found[0][4], min(found[0][1], found[0][3])) if found else None

    def functions(self):
        """Returns the names of the exported functions."""
        if not self._exports:
            return set()
        _, count, functions, names, ordinals = struct.unpack("<IIIII", self.bytes(self._at(self._exports) + 20, 20))
        addresses, number = self._at(functions), struct.Struct("<I")
        names, ordinals = self.structs(number, self._at(names), count), self.structs(struct.Struct("<H"), self._at(ordinals), count)
        found = set()
        for (name,), (ordinal,) in zip(names, ordinals):
            (address,) = number.unpack(self.bytes(addresses + 4 * ordinal, 4))
            if self._home(address)[9] & self._EXECUTABLE:
                found.add(self.text(self.data, self._at(name)))
        return found

    def _home(self, address):
        for section in self._sections:
            if 0 <= address - section[2] < max(section[1], section[3]):
                return section
        raise ValueError("an address is in no section")

    def _at(self, address):
        """Returns the file offset of an address in the loaded library."""
        section = self._home(address)
        return section[4] + address - section[2]
