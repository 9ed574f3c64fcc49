"""Stub files of hostile manifests, and how files are written; signatures.py runs the checks."""

import ast
import contextlib
import errno
import inspect
import io
import json
import os
import random
import re
import stat
import subprocess
import sys
import threading

import xla_ffi
import xla_ffi.__main__
from checks import folder, raises
from xla_ffi import _described, _handler, _library, _manifest, _signature, _stubs, _text_file

#: Manifests that are tried; each has a seed, so that what fails is told and found again.
COUNT = 400

#: What is hard in a name: words of Python's, its own names, letters that it reads as others, marks of direction.
NAMES = (
    "a", "b", "c", "a_b", "b_c", "a_b_c", "a_b_c_", "_", "__", "_debug__", "_debug___", "__debug__", "__priv", "None", "none", "true", "class",
    "match", "self", "options", "lambda", "fi", "ﬁ", "ﬀi", "ffi", "ﬃ", "é", "e\u0301", "K", "\u212a", "ª", "𝐟", "f", "µ", "μ", "x", "y", "",
    "a b", "x;y", "a: int = print", "/", "*", "*x", "**k", "operand0", "operand0_", "typing", "jax", "jax.", "t", "lib", "xla_ffi", "path", "handlers",
    "_owner", "_image", "attrs", "shapes", "vmap_method", "str", "tuple", "complex", "__call__", "__len__", "k\u202e", "g\u200b", "\u2028import os", "3d", "'", '"""', "\\",
)  # fmt: skip
TYPES = ("i32", "u8", "f32", "f64", "bool", "str", "any", "[f32]", "[u8]", "dict", "c64")
DEFAULTS = {"i32": [-1, 0], "f64": [-0.5], "str": ['"""\n\\', "jax.", "x\0"], "bool": [True], "[f32]": [[1.5]], "any": [{"a": 1}]}


def operand(name, **more):
    return {"name": name, "kind": "buffer", "dtypes": ["F32"], "rank": None, "optional": False, "variadic": False, **more}


def attribute(name, kind="i32", **more):
    return {"name": name, "type": kind, "optional": False, "default": None, **more}


def handler(name, args=("x",), attrs=(), rets=("y",), **more):
    args = [operand(arg) if isinstance(arg, str) else arg for arg in args]
    said = {"args": args, "rets": [operand(ret) for ret in rets], "attrs": list(attrs), **more}
    return {"name": name, "platforms": ["cpu"], "stages": {"execute": "h"}, "floor": "r1", **said}


def described(*libraries):
    """What the reader makes of libraries, each a name and its handlers."""
    payloads = [json.dumps({"library": name, "handlers": handlers}).encode() for name, handlers in libraries]
    return _manifest._joined([_manifest._record(2, payload, "f.so") for payload in payloads], "f.so")


def hostile(dice):
    """A manifest of hard names."""
    libraries = {}
    for _ in range(dice.choice((1, 1, 1, 2))):
        handlers = {}
        for _ in range(dice.randint(1, 6)):
            attrs = {}
            for _ in range(dice.randint(0, 5)):
                kind = dice.choice(TYPES)
                default = dice.choice(DEFAULTS.get(kind, [None])) if dice.random() < 0.3 else None
                name = dice.choice(NAMES)
                # What was a dictionary of that name may be none now.
                attrs = {place: each for place, each in attrs.items() if place[0] != name}
                attrs[None, name] = attribute(name, kind, optional=dice.random() < 0.3, default=default, doc=dice.choice(NAMES))
                if kind == "dict":
                    for member in dice.sample(NAMES, dice.randint(0, 3)):
                        attrs[name, member] = attribute(member, dice.choice(TYPES), **{"from": name})
            args = [operand(dice.choice(NAMES), optional=dice.random() < 0.2, doc=dice.choice(NAMES)) for _ in range(dice.randint(0, 4))]
            if args and dice.random() < 0.2:
                args[-1]["variadic"] = True
            name = dice.choice(NAMES)
            more = {"doc": dice.choice(NAMES), "open_attrs": dice.random() < 0.2}
            if name:
                handlers[name] = handler(name, args, attrs.values(), dice.sample(NAMES, dice.randint(0, 2)), **more)
        libraries[dice.choice(NAMES)] = list(handlers.values())
    return described(*libraries.items())


def stub(libraries, file="libf.so"):
    """The text of a stub, and its module; there is nothing that Python does not take, and no name that is there twice."""
    read = _manifest.read
    try:
        _manifest.read = lambda _path: {name: handlers for name, (handlers, _) in libraries.items()}
        text = _stubs.of(file)
    finally:
        _manifest.read = read
    compile(text, "stub.pyi", "exec")
    module = ast.parse(text)
    once([*(each.name for each in classes(module)), *(target for each in module.body for target in assigned(each))])
    for each in classes(module):
        once([name for statement in each.body for name in assigned(statement)])
    return text, module


def classes(module):
    return [each for each in module.body if isinstance(each, ast.ClassDef)]


def assigned(statement):
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets]
    return [statement.target.id] if isinstance(statement, ast.AnnAssign) else []


def once(names):
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AssertionError(f"{twice} are defined twice")


def loaded(libraries):
    """A library with these handlers, of which nothing is loaded: names alone are asked for."""
    specs = [spec for handlers, _ in libraries.values() for spec in handlers.values()]
    lib = object.__new__(_library.Library)
    lib.__dict__.update(path="f.so", prefix=None, digest="", legacy={})
    lib._name([(spec, _described.Described(spec, "f.so")) for spec in specs])
    return lib


def one(seed):
    """One hostile manifest: its stub says what the loader and Python do."""
    libraries = hostile(random.Random(seed))
    lib = loaded(libraries)
    specs = [spec for handlers, _ in libraries.values() for spec in handlers.values()]
    try:
        text, module = stub(libraries)
    except xla_ffi.LibraryError as error:
        if "nothing to write a stub of" not in str(error):
            raise
        return 0
    known = {each.name: each for each in classes(module)}
    dictionaries = {target for each in module.body if isinstance(each, ast.Assign) for target in assigned(each)}
    (library,) = [each for each in known.values() if ast.unparse(each.bases[0]) == "xla_ffi.Library"]
    fields = {each.target.id: each.annotation.id for each in library.body}
    for spec in specs:
        count = sum(other.name == spec.name for other in specs)
        name = spec.name if count == 1 else f"{spec.library}.{spec.name}"
        if f"# Not an attribute: lib[{name!a}].\n" in text:
            if spec.name in fields and count == 1:
                raise AssertionError(f"{name!r} is a field, and said to be none")
            if lib[name].spec is not spec:
                raise AssertionError(f"lib[{name!r}] is not the handler")
            # As Python reads it, another handler is not taken for it.
            with contextlib.suppress(SyntaxError, AttributeError):
                found = eval(f"lib.{spec.name}", {"lib": lib})
                if spec.name.isidentifier() and isinstance(found, _described.Described) and found.spec is not spec:
                    raise AssertionError(f"lib.{spec.name} is {found!r}")
            continue
        if eval(f"lib.{spec.name}", {"lib": lib}).spec is not spec:
            raise AssertionError(f"lib.{spec.name} is another handler")
        calls = known[fields[spec.name]]
        (call,) = [each for each in calls.body if isinstance(each, ast.FunctionDef)]
        if not ast.get_docstring(call, clean=False).startswith(_signature.printable(f"{spec.name}(")):
            raise AssertionError(f"{spec.name} has another one's class")
        keywords = [each.arg for each in call.args.kwonlyargs]
        shown = inspect.signature(_shown(spec)).parameters.values()
        if keywords != [each.name for each in shown if each.kind == inspect.Parameter.KEYWORD_ONLY]:
            raise AssertionError(f"{spec.name}: {keywords} in the stub, and {shown} in the signature")
        by_attrs = [attr.name for attr in spec.attrs if attr.inside is None and attr.name not in keywords]
        if by_attrs and f"class {calls.name}(xla_ffi.Handler):\n    # By attrs={{…}}: {', '.join(map(ascii, by_attrs))}.\n" not in text:
            raise AssertionError(f"{by_attrs} are not told:\n{text}")
        mentioned = {each.id for each in ast.walk(call) if isinstance(each, ast.Name) and each.id.startswith("_")}
        if mentioned - dictionaries:
            raise AssertionError(f"{mentioned - dictionaries} are no dictionaries")
        for keyword, said in zip(keywords, call.args.kwonlyargs):
            for each in ast.walk(said.annotation):
                if isinstance(each, ast.Name) and each.id in dictionaries:
                    _members(module, each.id, [attr.name for attr in spec.attrs if attr.inside == keyword])
    return len(fields)


def _shown(spec):
    function = lambda *args, **options: None
    function.__signature__ = _signature.signature(spec, _handler.options(), object)
    return function


def _members(module, name, wanted):
    """A dictionary's TypedDict has its members, and not those of another."""
    (value,) = [each.value for each in module.body if isinstance(each, ast.Assign) and assigned(each) == [name]]
    found = [key.value for key in value.args[1].keys]
    if found != wanted:
        raise AssertionError(f"{name} has {found}, not {wanted}")


def properties():
    """Of any manifest: what is written is Python, names each thing once, and tells what it leaves away."""
    named = 0
    for seed in range(COUNT):
        try:
            named += one(seed)
        except Exception as error:
            raise AssertionError(f"manifest {seed}: {type(error).__name__}: {error}") from error
    if named < COUNT:
        raise AssertionError(f"only {named} handlers have been fields: the manifests are too hard")


def texts():
    """Names that were no Python, or were one name to it."""
    for name in ("none", "true", "False"):
        text, _ = stub(described((name, [handler("f")])))
        if f"class Library{name[0].upper() + name[1:]}(xla_ffi.Library):" not in text:
            raise AssertionError(text)
    text, _ = stub(described(("l", [handler("f", ["x", "ﬁ"], [attribute("fi"), attribute("__debug__")])])))
    if "x: t.Operand, operand1: t.Operand, /, *, fi: t.Int," not in text or "# By attrs={…}: '__debug__'." not in text:
        raise AssertionError(text)
    text, _ = stub(described(("l", [handler("f", attrs=[attribute("ﬁ"), attribute("fi"), attribute("k")])])))
    if r"# By attrs={…}: '\ufb01', 'fi'." not in text or "/, *, k: t.Int" not in text:
        raise AssertionError(text)
    text, _ = stub(described(("l", [handler("ﬁ"), handler("fi"), handler("__debug__"), handler("f")])))
    for left_out in ("ﬁ", "fi", "__debug__"):
        if f"# Not an attribute: lib[{left_out!a}].\n" not in text:
            raise AssertionError(text)
    inner = [attribute("b_c", "dict"), attribute("q", **{"from": "b_c"})], [attribute("c", "dict"), attribute("z", "f32", **{"from": "c"})]
    text, _ = stub(described(("l", [handler("a", attrs=inner[0]), handler("a_b", attrs=inner[1]), handler("a_b_c")])))
    for wanted in ("class _a_b_c(xla_ffi.Handler):", "b_c: _a_b_c_,", "_a_b_c_ = ", "c: _a_b_c__,", "_a_b_c__ = "):
        if wanted not in text:
            raise AssertionError(f"{wanted!r} is not in\n{text}")


def read_as_others():
    """Where Python reads one name as another, neither handler nor attribute is taken for the other."""
    lib = loaded(described(("l", [handler("ﬁ"), handler("fi"), handler("𝐟"), handler("g", attrs=[attribute("ﬁ"), attribute("fi", optional=True)])])))
    if ast.parse("lib.ﬁ").body[0].value.attr != "fi":
        raise AssertionError("this Python reads names as they are")
    for text in ("lib.ﬁ", "lib.fi"):
        raises(AttributeError, lambda text=text: eval(text, {"lib": lib}), r"Python reads '\ufb01' as 'fi'", r"write lib['fi'] or lib['\ufb01']")
    raises(AttributeError, lambda: eval("lib.𝐟", {"lib": lib}), r"Python reads '\U0001d41f' as 'f'", r"write lib['\U0001d41f']")
    for name in ("fi", "ﬁ", "𝐟", "g"):
        if lib[name].spec.name != name or name not in dir(lib):
            raise AssertionError(name)
    g = lib.g
    for more in ({"fi": 1}, {"fi": 1, "ﬁ": 2}):
        raises(TypeError, lambda more=more: g._attributes(None, more), r"l.g: Python reads '\ufb01' as 'fi'", r"attrs={'fi': …, '\ufb01': …}")
    if g._attributes({"ﬁ": 1, "fi": 2}, {}) != {"ﬁ": 1, "fi": 2}:
        raise AssertionError("attrs=")


def own_names(lib):
    """What a loaded library has of its own is no field of a stub."""
    for name in vars(lib):
        with contextlib.suppress(xla_ffi.LibraryError):
            text, _ = stub(described(("l", [handler(name), handler("other")])))
            if f"# Not an attribute: lib[{name!a}].\n" not in text:
                raise AssertionError(f"{name} is a field of the stub:\n{text}")


def run(library, out):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        return xla_ffi.__main__.main(["stubs", library, "-o", str(out)]), said.getvalue()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def whole(library):
    """`stubs -o` leaves what was there where it cannot write, and what it writes over keeps its permissions and its links."""
    text, place = _stubs.of(library), folder()
    alone = lambda: sorted(name for name in os.listdir(place) if name.startswith(".")) == []
    out = place / "norm.pyi"
    if run(library, out)[0] != 0 or read(out) != text or not alone():
        raise AssertionError("a new file")
    umask = os.umask(0o022)
    os.umask(umask)
    if stat.S_IMODE(out.stat().st_mode) != 0o666 & ~umask:
        raise AssertionError(f"a new file has the permissions {out.stat().st_mode:o}")
    out.write_text("before")
    out.chmod(0o640)
    link, far = place / "link.pyi", place / "far.pyi"
    link.symlink_to("norm.pyi")
    far.symlink_to("not-there.pyi")
    with open(out, encoding="utf-8") as old:
        if run(library, link)[0] != 0 or not link.is_symlink() or read(out) != text or stat.S_IMODE(out.stat().st_mode) != 0o640:
            raise AssertionError("through a link")
        if old.read() != "before":
            raise AssertionError("the file was written where it was: a reader would find a part of it")
    if run(library, far)[0] != 0 or not far.is_symlink() or read(place / "not-there.pyi") != text or not alone():
        raise AssertionError("through a link to nothing")
    # Too large a file is refused like a full disk.
    out.write_text("before")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); "
        "from xla_ffi import __main__; sys.exit(__main__.main(['stubs', *sys.argv[1:]]))"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code, library, "-o", out], capture_output=True, text=True, check=False)
    if done.returncode != 1 or str(out) not in done.stderr or read(out) != "before" or not alone():
        raise AssertionError(f"{done.returncode}, {done.stderr}, {read(out)[:20]!r}, {os.listdir(place)}")
    for wrong in (place, place / "norm.pyi" / "x", place / "nowhere" / "x"):
        status, said = run(library, wrong)
        if status != 1 or str(wrong) not in said:
            raise AssertionError(f"{status}, {said}")
    # By a child's own standard output: a mistake here is not to cost the machine its device.
    if os.path.exists("/dev/full"):
        command = [sys.executable, "-B", "-m", "xla_ffi", "stubs", library, "-o", "/dev/stdout"]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 1 or done.stderr != f"error: [Errno {errno.ENOSPC}] No space left on device: '/dev/stdout'\n":
            raise AssertionError(f"{done.returncode}, {done.stderr}")


def in_place(library):
    """What is no regular file, or open already, stays what it is."""
    text, place = _stubs.of(library), folder()
    fifo, got = place / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: got.append(read(fifo)), daemon=True)
    reader.start()
    if run(library, fifo)[0] != 0 or not stat.S_ISFIFO(fifo.stat().st_mode):
        raise AssertionError("a FIFO")
    reader.join(60)
    command = [sys.executable, "-B", "-m", "xla_ffi", "stubs", library, "-o", "/dev/stdout"]
    got.append(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    with open(place / "out", "w+", encoding="utf-8") as file:
        subprocess.run(command, stdout=file, check=True)
        got.append(file.read() if os.fstat(file.fileno()).st_nlink else "another file took its name")
    if got != [text] * 3:
        raise AssertionError(got)
    if os.geteuid() == 0:
        return
    # A folder that takes no new file, and a file that is not to be written.
    closed = place / "closed"
    closed.mkdir()
    (closed / "f").write_text("before")
    closed.chmod(0o555)
    _text_file.write(str(closed / "f"), "after")
    closed.chmod(0o755)
    if read(closed / "f") != "after":
        raise AssertionError("a closed folder")
    (closed / "f").chmod(0o444)
    raises(PermissionError, lambda: _text_file.write(str(closed / "f"), "again"), str(closed / "f"))
