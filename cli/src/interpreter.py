"""Loads a library in this interpreter and makes the metadata queries of all revisions to its handlers.

`xla-ffi doctor` runs this file as a child process: `python -c FILE PIPE REQUEST`. The answers are written to the pipe
as JSON.
"""

import ctypes
import functools
import importlib
import importlib.machinery
import importlib.util
import json
import operator
import os
import re
import select
import signal
import sys
import time

PIPE, REQUEST = int(sys.argv[1]), json.loads(sys.argv[2])
STAGES = {"instantiate", "prepare", "initialize", "execute", "record"}
GUARD = 0x5A5AA5A53C3CC33C
UNANSWERED = 0x8000000080000000
#: Indices of functions in the host's function table, which are the same in all revisions.
ERROR_CREATE, TYPE_REGISTER = 0, 5


def say(**message):
    os.write(PIPE, (json.dumps(message) + "\n").encode())


def load():
    """Returns the loaded module, or the shared library if the request names no module."""
    sys.path[:0] = REQUEST["path"]
    file, name = REQUEST["file"], REQUEST["module"]
    if not name:
        return ctypes.CDLL(file)
    alone = isolated("the library", lambda: [bool(load_alone())])
    if "." not in name or alone == ([True], None):
        return load_alone()
    # The module needs names that its package loads first.
    say(calls="the library")
    module = importlib.import_module(name)
    return module if os.path.samefile(module.__file__, file) else load_alone()


def load_alone():
    """Returns the module without its package."""
    loader = importlib.machinery.ExtensionFileLoader(REQUEST["module"], REQUEST["file"])
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(REQUEST["module"], loader))
    loader.exec_module(module)
    return module


def missing_package(error):
    """Returns the Python package whose absence caused an error."""
    while error:
        if isinstance(error, ModuleNotFoundError):
            return error.name
        error = error.__cause__ or error.__context__
    return None


def isolated(who, work):
    """Runs `work` in a fork of this process. Returns the values that `work` yields, and the reason why the fork failed
    or None."""
    say(enters=who)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            for answer in work():
                os.write(write, (json.dumps(answer) + "\n").encode())
        except BaseException as error:
            os.write(write, (json.dumps({"raised": f"{type(error).__name__}: {error}"}) + "\n").encode())
        os._exit(0)
    os.close(write)
    text, end, failure = b"", time.monotonic() + REQUEST["limit"], None
    while True:
        if not select.select([read], [], [], max(0, end - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
            failure = f"did not return within the time limit of {REQUEST['limit']}s and was stopped"
            break
        part = os.read(read, 65536)
        if not part:
            break
        text += part
    os.close(read)
    status = os.waitpid(child, 0)[1]
    if not failure and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        failure = f"crashed its process with signal {number} ({signal.Signals(number).name})"
    elif not failure and status:
        failure = f"ended its process with exit status {os.WEXITSTATUS(status)}"
    return [json.loads(line) for line in text.splitlines()], failure


def code_of(capsule):
    """Returns the pointer in a capsule."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_void_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_void_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def collect(value, shown, name, handlers, types):
    """Adds the handlers and type ids in a value to the lists. The value is a capsule, or a dict or list of capsules."""
    if type(value).__name__ == "PyCapsule":
        if name == "type_id" or (name.endswith("type_id") and not is_function(code_of(value))):
            types.append(code_of(value))
        elif name != "type_info":
            handlers.append([name, {"execute": [shown, code_of(value)]}])
    elif isinstance(value, dict):
        capsules = {key: part for key, part in value.items() if type(part).__name__ == "PyCapsule"}
        if "execute" in capsules and STAGES.issuperset(capsules):
            stages = {stage: [f"{shown}[{stage!r}]", code_of(part)] for stage, part in capsules.items()}
            handlers.append([name, stages])
        else:
            for key, part in value.items():
                collect(part, f"{shown}[{key!r}]", str(key), handlers, types)
    elif isinstance(value, (list, tuple)):
        texts = [part for part in value if isinstance(part, str)]
        for at, part in enumerate(value):
            collect(part, f"{shown}[{at}]", texts[0] if texts else name, handlers, types)


def may_return_capsules(function):
    """Returns true if calling a function without arguments may return capsules, judging by its signature."""
    signature = getattr(function, "__nb_signature__", None)
    text = signature[0][0] if signature else getattr(function, "__text_signature__", None) or function.__doc__ or ""
    match = re.match(r"(?:def )?[\w.]*\(([^)]*)\)(?:\s*->\s*(.*))?", text.strip().split("\n")[0])
    if not match:
        return True  # Without a known signature, try the call. Python rejects a call without required arguments.
    arguments, result = match.groups()
    none = all(part.strip() in ("", "/", "$module") for part in arguments.split(","))
    return none and (not result or re.search("object|capsule|dict|list|tuple|any", result, re.I))


def members(module):
    """Yields each public name of a module and of its submodules, with its value."""
    for name in dir(module):
        value = getattr(module, name, None)
        if type(value) is type(sys) and value.__name__.startswith(module.__name__ + "."):
            yield from ((f"{name}.{inner}", part) for inner, part in members(value))
        elif not name.startswith("__"):
            yield name, value


def capsules_of(module):
    """Returns the handlers and type ids among a module's attributes and the results of its functions."""
    handlers, types = [], []
    for name, value in members(module):
        shown, plain = name, name.rpartition(".")[2]
        if callable(value) and not isinstance(value, type):
            if not may_return_capsules(value):
                continue

            def trial(function=value):
                found = [], []
                collect(function(), "", "", *found)
                yield bool(found[0] or found[1])

            if isolated(f"{name}()", trial) != ([True], None):
                continue
            value, shown = value(), f"{name}()"
        collect(value, shown, plain, handlers, types)
    return [one for one in handlers if all(is_function(at) for _, at in one[1].values())], types


def is_function(address):
    """Returns true if the memory at an address is executable."""
    try:
        with open("/proc/self/maps") as maps:
            lines = [line.split()[:2] for line in maps]
    except OSError:
        return True
    spans = [[int(end, 16) for end in span.split("-")] for span, rights in lines if "x" in rights]
    return any(start <= address < end for start, end in spans)


def ask(function, revision):
    """Makes the metadata query of one revision and returns the handler's answer."""
    minor, table_size, count, has_state, has_future = revision
    errors = []

    def create(arguments):
        message = ctypes.c_uint64.from_address(arguments + 16).value
        errors.append(ctypes.string_at(message).decode("utf-8", "replace"))
        return 1

    def register(arguments):
        ctypes.c_int64.from_address(ctypes.c_uint64.from_address(arguments + 32).value).value = 1000
        return 0

    def other(_arguments):
        errors.append("it calls other functions of the host in the metadata call")
        return 1

    prototype = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)
    callbacks = {ERROR_CREATE: prototype(create), TYPE_REGISTER: prototype(register), None: prototype(other)}
    slots = [ctypes.cast(callbacks.get(at, callbacks[None]), ctypes.c_void_p).value for at in range(count)]
    table = words([table_size, 0, 24, 0, minor << 32, 0, *slots])
    # The fields are struct_size, api_version (24 bytes), traits, state_type_id, and a guard.
    answer = words([36, 24, 0, UNANSWERED, 0, 0 if has_state else GUARD] + [GUARD] * 4)
    extension = words([32, 1, 0, ctypes.addressof(answer)])
    head = [168, ctypes.addressof(extension), ctypes.addressof(table) if minor > 1 else 0, 0, 3]
    operands = [40, 0, 0, 0, 0] * 2 + [48, 0, 0, 0, 0, 0]
    frame = words(head + operands + [0 if has_future else GUARD] + [GUARD] * 4)
    failed = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(function)(ctypes.addressof(frame))
    version = answer[3]
    if errors and failed:
        return {"refused": errors[0]}
    if list(frame[22:]) != [GUARD] * 4 or (not has_future and frame[21] != GUARD):
        return {"broke": "bytes after the call frame were written", "silent": version == UNANSWERED}
    if list(answer[6:]) != [GUARD] * 4 or (not has_state and answer[5] != GUARD):
        return {"broke": "bytes after the metadata were written", "overran": True}
    if version == UNANSWERED:
        return {"refused": "the metadata call was not answered", "silent": True}
    return {
        "major": ctypes.c_int32(version & 0xFFFFFFFF).value,
        "minor": ctypes.c_int32(version >> 32).value,
        "traits": answer[4] & 0xFFFFFFFF,
        "state": bool(has_state and answer[5]),
    }


def ask_all(functions, revision):
    """Combines the stages' answers to a metadata query: the first failure, or the newest version with all traits and
    the last state."""
    found = [ask(function, revision) for function in functions]
    failures = [one for one in found if "major" not in one]
    traits = functools.reduce(operator.or_, (one.get("traits", 0) for one in found))
    if failures:
        return failures[0]
    newest = max(found, key=lambda one: (one["major"], one["minor"]))
    return {**newest, "traits": traits, "state": found[-1]["state"]}


def words(values):
    return (ctypes.c_uint64 * len(values))(*values)


def answers(who, stages, types):
    """Returns a handler's answers to the metadata queries, one per revision."""
    found = []

    def work():
        for number, address in enumerate(types):
            ctypes.c_int64.from_address(address).value = 1000 + number
        for revision in REQUEST["revisions"][len(found) :]:
            both = [stages["execute"][1]]
            if revision[0] > 1 and "instantiate" in stages:
                both.append(stages["instantiate"][1])
            yield ask_all(both, revision)

    while len(found) < len(REQUEST["revisions"]):
        more, failure = isolated(who, work)
        found += [{"broke": one["raised"], "silent": True} if "raised" in one else one for one in more]
        if failure:
            found.append({"broke": failure, "silent": True})
            if "time limit" in failure:
                break
    return found


def main():
    say(calls="the library")
    try:
        library = load()
    except Exception as error:
        say(answer={"error": f"{type(error).__name__}: {error}", "needs": missing_package(error)})
        return
    handlers, types = [], []
    if REQUEST["module"]:
        handlers, types = capsules_of(library)
        library = ctypes.CDLL(REQUEST["file"])
    guesses = [] if handlers else REQUEST["guesses"]
    for name, stages in guesses + REQUEST["symbols"]:
        pointers = [(stage, symbol, ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value) for stage, symbol in stages]
        handlers.append([name, {stage: [symbol, at] for stage, symbol, at in pointers}])
    done = []
    for name, stages in handlers:
        done.append([name, {stage: shown for stage, (shown, _) in stages.items()}, answers(name, stages, types)])
    say(answer={"types": len(types), "handlers": done})


main()
say(ends=None)
# Skip the module's exit handlers, because a crash in them does not concern the answers.
os._exit(0)
