"""Makes the seeds of `library` and `wheel` that have every name the doctor knows: of libraries that are needed, of symbols
that are imported and exported, of folders; and those whose manifests say all that a manifest may. A Mach-O library and a DLL, byte by byte as no linker for them is at hand, and an
ELF library, with gcc. Run as `python3 names.py`; the bytes lie in corpus/."""

import json
import pathlib
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
CORPUS = HERE.parent / "corpus"

SYMBOLS = """XLA_FFI_GetApi XlaCustomCallStatusSetFailure Py_Initialize _PyObject_New _ZN4abslX _ZNK3xlaX _ZTVN3tslX
_ZTIN15stream_executorX _ZTSN4mlirX _ZGVN4llvmX _ZZN3xlaX unknown""".split()
EXPORTS = """GOMP_parallel __kmpc_fork_call openblas_set_num_threads MKL_Set_Num_Threads _ZN3tbb6detail2r1X _ZN10rayon_coreX
_ZN4abslX _ZN6google8protobufX _ZN5EigenX _ZN4llvmX cblas_dgemm openblas_x cudart_x handler xla_ffi_legacy_targets
_ZN3xla3ffi7HandlerILNS0_14ExecutionStageE3E5StateI6FutureC1E""".split()
TEXT = "libgomp: \0OPENBLAS_NUM_THREADS\0MKL_NUM_THREADS\0RAYON_NUM_THREADS\0"
LINUX = """libstdc++.so.6 libpython3.12.so.1.0 libxla.so libjax.so xla_extension.so libgomp.so.1 libomp.so.5 libiomp5.so
libopenblas.so.0 libmkl_rt.so libtbb.so.12 libcudart.so.12 libz.so.1 ld-linux-x86-64.so.2""".split()
MACOS = """/usr/lib/libSystem.B.dylib @rpath/libmine.dylib @executable_path/x.dylib /opt/x.dylib @loader_path/y.dylib
/x/Python.framework/Versions/3.12/Python libpython3.12.dylib libomp-x""".split()
WINDOWS = """KERNEL32.dll python312.dll libstdc++-6.dll VCRUNTIME140D.dll ucrtbased.dll msvcp140.dll libiomp5md.dll mine.dll
api-ms-win-crt.dll""".split()


# All commands but those that are made by hand.
COMMANDS = b"".join(
    struct.pack("<II", number | later, 80) + struct.pack("<I", 12) + bytes(68)
    for number in range(3, 0x38)
    if number not in (0x0C, 0x0D, 0x19, 0x1C, 0x1D, 0x24, 0x32)
    for later in ([0x80000000] if number in (0x18, 0x1F, 0x22, 0x23, 0x28, 0x33, 0x34, 0x35) else [0])
)


def fat(wide: bool, *parts: bytes) -> bytes:
    size = 8 + (32 if wide else 20) * len(parts)
    head, body = struct.pack(">II", 0xCAFEBABF if wide else 0xCAFEBABE, len(parts)), b""
    for part in parts:
        body += bytes(-(size + len(body)) % 16)
        processor, kind = struct.unpack_from("<II", part, 4)
        place = (processor, kind, size + len(body), len(part), 4)
        head += struct.pack(">IIQQII", *place, 0) if wide else struct.pack(">IIIII", *place)
        body += part
    return head + body


def mach_o(arm: bool, version: bytes, exports: list = EXPORTS, more: bytes = b"") -> bytes:
    strings, symbols = b"\0", b""
    names = [(name, 0x01, 0, 0x100 * (1 + at % 3)) for at, name in enumerate(SYMBOLS)]
    names += [(name, 0x0F, 1, 0) for name in exports]
    for name, kind, section, description in names:
        symbols += struct.pack("<IBBHQ", len(strings), kind, section, description, 0)
        strings += b"_" + name.encode() + b"\0"

    def text(command: int, head: bytes, value: str) -> bytes:
        value = value.encode() + b"\0"
        value += b"\0" * (-(12 + len(head) + len(value)) % 8)
        return struct.pack("<III", command, 12 + len(head) + len(value), 12 + len(head)) + head + value

    commands = [text(0x0D, bytes(12), "libmine.dylib")]
    commands += [text(0x0C, bytes(12), name) for name in MACOS]
    commands += [text(0x8000001C, b"", value) for value in ["@loader_path", "/opt/lib", "lib", "@rpath/x"]]
    section = struct.pack("<16s16sQQIIIIIIII", b"__text", b"__TEXT", 0, 0, 0, 0, 0, 0, 0x80000400, 0, 0, 0)
    commands.append(struct.pack("<II16sQQQQIIII", 0x19, 152, b"__TEXT", 0, 0, 0, 0, 5, 5, 1, 0) + section)
    commands.append(version)
    while more:
        length = struct.unpack_from("<I", more, 4)[0]
        commands.append(more[:length])
        more = more[length:]
    size = 32 + sum(map(len, commands)) + 24
    commands.append(struct.pack("<IIIIII", 2, 24, size, len(names), size + len(symbols), len(strings)))
    processor = (0x0100000C, 0) if arm else (0x01000007, 3)
    body = b"".join(commands)
    head = struct.pack("<IIIIIIII", 0xFEEDFACF, *processor, 6, len(commands), len(body), 0x85 | 0x20000, 0)
    return head + body + symbols + strings + TEXT.encode()


def pe(record: bytes = b"") -> bytes:
    base, begin = 0x1000, 0x200
    data = bytearray(40 + 20 * (len(WINDOWS) + 1))
    functions = len(data)
    data += struct.pack(f"<{len(EXPORTS)}I", *[base + at for at, _ in enumerate(EXPORTS)])
    pointers, count = len(data), len(EXPORTS)
    data += bytes(4 * count) + struct.pack(f"<{count}H", *range(count))

    def put(name: str, hint: bytes = b"") -> int:
        at = base + len(data)
        data.extend(hint + name.encode() + b"\0")
        return at

    for at, name in enumerate(sorted(EXPORTS)):
        struct.pack_into("<I", data, pointers + 4 * at, put(name))
    own = put("mine.dll")
    ordinals = base + pointers + 4 * count
    struct.pack_into("<IIHHIIIIIII", data, 0, 0, 0, 0, 0, own, 1, count, count, base + functions, base + pointers, ordinals)
    for at, library in enumerate(WINDOWS):
        first = put(SYMBOLS[at % len(SYMBOLS)], b"\0\0")
        name = put(library)
        thunks = base + len(data)
        data += struct.pack("<QQQ", first, 1 << 63 | 7, 0)
        struct.pack_into("<IIIII", data, 40 + 20 * at, thunks if at % 2 else 0, 0, 0, name, thunks)
    data += TEXT.encode()
    head = bytearray(b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40))
    head += b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 2 if record else 1, 0, 0, 0, 240, 0x2022)
    head += struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, 0, 0, 0, base)
    head += struct.pack("<QIIHHHHHHIIIIHHQQQQII", 1 << 32, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x3000, begin, 0, 2, 0, 0, 0, 0, 0, 0, 16)
    folders = [(base, 40), (base + 40, 20 * (len(WINDOWS) + 1))] + [(0, 0)] * 14
    head += b"".join(struct.pack("<II", *folder) for folder in folders)
    head += struct.pack("<8sIIIIIIHHI", b".text", len(data), base, len(data), begin, 0, 0, 0, 0, 0x60000020)
    if record:
        # At the end, where its text may grow.
        data += bytes(-len(data) % 16)
        place = begin + len(data)
        head += struct.pack("<8sIIIIIIHHI", b".xla_ffi", len(record), 0x8000, len(record), place, 0, 0, 0, 0, 0x40000040)
        data += record
    return bytes(head.ljust(begin, b"\0") + data)


def operand(name: str, *dtypes: str, **more) -> dict:
    return {"name": name, "kind": "buffer", "dtypes": list(dtypes) or None, "rank": None, **more}


def handler(name: str, args: list, rets: list, **more) -> dict:
    head = {"name": name, "platforms": ["cpu"], "stages": {"execute": "handler"}, "floor": "r1"}
    return {**head, "args": args, "rets": rets, "attrs": [], **more}


def record(*handlers: dict, **more) -> bytes:
    text = json.dumps({"library": "l", "sdk": "0", "handlers": handlers, **more}, separators=(",", ":")).encode()
    return b"XLAFFIMF" + struct.pack("<II", 2, len(text)) + text


x, y, whole, token = operand("x", "F32"), operand("y", "C64"), operand("i", "S32"), operand("t", "TOKEN")
DEFAULTS = {"bool": [True, 1], "i8": [-128, 128], "i64": [-1, 1.5], "u64": [2**64 - 1, -1], "f32": [1.5, 1e39], "f64": [1, "x"]}
DEFAULTS |= {"str": ["s", 1], "dict": [{}, []], "any": [None, 7], "[i8]": [[1], [300]], "[c64]": [[1.0], 1], "c128": [1, {}]}
RECORDS = {
    "defaults": record(
        handler(
            "h",
            [operand("a", "F32", "NONE"), operand("r", rank=2, layout=[1, 0])],
            [operand("b", "X", layout="column")],
            attrs=[
                {"name": f"{kind}{at}", "type": kind, "default": value, "optional": True, "narrow": True}
                for kind, values in DEFAULTS.items()
                for at, value in enumerate(values)
            ],
        )
    ),
    "contracts": record(
        handler("none", [x], [x], shape="->->"),
        handler("count", [x, x], [], shape="n -> n"),
        handler("token", [{**x, "kind": "token"}, token, x], [x], shape="n, token, token -> n"),
        handler("rank", [operand("x", "F32", rank=2)], [x], shape="n -> n"),
        handler("absent", [{**x, "optional": True}, {**x, "variadic": True}], [x], shape="n, m -> n"),
        handler("present", [x, x], [x], shape="n?, m* -> n"),
        handler("undescribed", [], [], shape="n -> n", described=False),
        handler("fits", [{**x, "inout": True}], [{**x, "inout": True}], shape="... n -> ... n", batch="leading"),
    ),
    "gradients": record(
        handler("f", [x, whole], [y], gradient={"vjp": "back", "residuals": ["x", "y", "more"], "forward": "fwd"}),
        handler("fwd", [x, whole], [y, operand("more", "F64")]),
        handler("back", [x, y, operand("more", "F64"), y], [x]),
        handler("j", [x], [y], gradient={"jvp": "tangent", "transpose": "back", "residuals": []}),
        handler("tangent", [x, operand("dx", "F32", rank=3)], [y]),
        handler("line", [x, whole], [y], gradient={"linear": True, "transpose": "nobody", "residuals": ["z"]}),
        handler("line2", [x, whole], [y], gradient={"linear": True, "transpose": "wrong"}),
        handler("wrong", [{**x, "optional": True}, {**x, "variadic": True}], [token], attrs=[{"name": "k", "type": "i8"}]),
        handler("flat", [whole], [whole], gradient={"vjp": "back"}),
        handler("lost", [x], [x], gradient={"vjp": "back", "forward": "nobody"}),
    ),
    "batches": record(
        handler("b", [operand("x", "F32", rank=1)], [x], batch={"handler": "deeper"}),
        handler("deeper", [operand("x", "F32", rank=2)], [x]),
        handler("c", [operand("x", "F32", rank=2), x], [x], batch={"handler": "deeper"}),
        handler("d", [x], [x], batch={"handler": "nobody"}),
        handler("e", [x, y], [], batch=["leading", "shared"]),
        handler("g", [x], [{**x, "variadic": True}], batch={"handler": "d"}, attrs=[{"name": "k", "type": "i8"}]),
        handler("u", [x], [x], batch="none", **{"async": True}, state={"type": "S"}, traits=["x"], context=["user_data"]),
    ),
    "legacy": record(
        register="handler",
        legacy=[
            {"name": "t", "platforms": ["Host"], "signature": "cpu", "api_version": 1, "symbol": "handler"},
            {
                "name": "u",
                "platforms": ["Host"],
                "signature": "cpu_status",
                "api_version": 2,
                "symbol": "nobody",
                "args": [{"dtypes": ["F32"], "dims": [1, 2]}] * 2,
                "rets": [{"dtypes": ["F32"], "dims": []}],
                "tuples": "roots",
                "structure": "(_, _) -> (_)",
            },
        ],
    ),
}


def elf() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        plain = ["-shared", "-nostdlib", "-fPIC", "-w", "-fno-ident", "-fno-asynchronous-unwind-tables", "-Wl,--build-id=none"]
        plain += ["-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=16", "-Wl,--hash-style=gnu"]

        def build(name: str, source: str, *more: str) -> pathlib.Path:
            (folder / "x.c").write_text(source)
            subprocess.run(["gcc", *plain, f"-Wl,-soname,{name}", "x.c", "-o", name, *more], cwd=folder, check=True)
            return folder / name

        (folder / "map").write_text("GLIBCXX_3.4.33 {wide;}; GLIBC_2.38 {late;};")
        build("libstdc++.so.6", "void wide(void){} void late(void){}", "-Wl,--version-script,map")
        for name in LINUX[1:]:
            build(name, "")
        source = "".join(f"extern void {name}(void);" for name in [*SYMBOLS, "wide", "late"])
        source += 'extern void weak(void) __attribute__((weak)); asm(".weak XLA_FFI_GetApi");'
        calls = "".join(f"{name}();" for name in [*SYMBOLS, "wide", "late", "weak"])
        source += "".join(f"void {name}(void){{}}" for name in EXPORTS if name not in SYMBOLS)
        source += f"void all(void){{{calls}}} __thread int own; int *tls(void){{return &own;}}"
        source += 'int one; asm(".type one,@gnu_unique_object"); void *pick(void){return all;} asm(".type pick,@gnu_indirect_function");'
        source += f'const char text[] = "{TEXT}";'.replace("\0", "\\0")
        needs = [f"./{name}" for name in LINUX]
        rpath = "-Wl,-rpath,$ORIGIN:/opt/lib:lib:${ORIGIN}/x"
        (folder / "own").write_text("MINE_1 {handler; all;}; MINE_2 {one; pick;} MINE_1;")
        library = build("libmine.so", source, "-Wl,--version-script,own", "-Wl,--no-as-needed", *needs, rpath, "-Wl,-z,execstack", "-ftls-model=initial-exec", "-Wl,--allow-shlib-undefined", "-s")
        return library.read_bytes()


build_version = struct.pack("<IIIIII", 0x32, 24, 1, 14 << 16, 14 << 16, 0)
version_min = struct.pack("<IIII", 0x24, 16, 10 << 16 | 9 << 8 | 1, 0)
for name, text in RECORDS.items():
    (CORPUS / "library" / f"manifest-{name}").write_bytes(pe(text))
for name, library in {
    "names-elf": elf(),
    "names-mach-o": mach_o(True, build_version),
    "names-mach-o-intel": mach_o(False, version_min),
    "names-pe": pe(),
    "commands": mach_o(True, b"", [], COMMANDS),
    "fat-wide": fat(True, mach_o(False, version_min), mach_o(True, build_version)),
    "fat-unlike": fat(False, mach_o(True, b"", ["handler"]), mach_o(False, b"", [])),
}.items():
    (CORPUS / "library" / name).write_bytes(library)
    tag = {"names-elf": 0, "names-mach-o": 1, "names-pe": 3, "commands": 1}.get(name, 2)
    (CORPUS / "wheel" / name).write_bytes(bytes([tag]) + library)
