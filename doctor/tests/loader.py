"""Answers the manifests on standard input, a JSON list of sections, each a list of bytes: why the loader refuses it, or null.

Started by `src/description/alike.rs`.
"""

import json
import sys

import xla_ffi
from xla_ffi import _declared, _handler, _manifest


def refused(section):
    try:
        payloads = _manifest._payloads(section, "f.so")
        if not payloads:
            return "no manifest"
        libraries = _manifest._joined([_manifest._record(version, payload, "f.so") for version, payload in payloads], "f.so")
        for name, (specs, _legacy) in libraries.items():
            handlers = {spec.name: _handler.Handler(spec, f"{name}.{spec.name}", "f.so", None) for spec in specs.values()}
            _declared.resolve("f.so", handlers)
    except xla_ffi.LibraryError as error:
        return str(error)
    except Exception as error:  # no error of the loader's own
        return f"bare {error!r}"
    return None


json.dump([refused(bytes(section)) for section in json.load(sys.stdin)], sys.stdout)
