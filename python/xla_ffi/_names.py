"""Names in a manifest: one line of text each."""

import re

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
#: Keys whose texts are no names; the blanks of a contract may be any.
_TEXTS = ("doc", "default", "shape")


def fault(record):
    """Which name in a manifest's record has a control character, in words; None where none has.

    A line break in a name begins a line that reads as the reader's own words, and terminals obey others.
    """
    stack = [record]
    while stack:
        value = stack.pop()
        if isinstance(value, str) and _CONTROL.search(value):
            return f"a name has a control character: {value!r}"
        if isinstance(value, list):
            stack += reversed(value)
        elif isinstance(value, dict):
            wrong = next((key for key in value if key not in _TEXTS and _CONTROL.search(key)), None)
            if wrong is not None:
                return f"a key has a control character: {wrong!r}"
            stack += [each for key, each in value.items() if key not in _TEXTS]
    return None
