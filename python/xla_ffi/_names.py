"""Names in a manifest: one line of text each, and what Python makes of them."""

import keyword
import re
import unicodedata

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


def plain(name):
    """Whether a name can be an attribute's or a parameter's: one that Python takes, as it is written."""
    return name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__" and _read(name) == name


def alike(names):
    """The names that Python reads as others, ``ﬁ`` as ``fi``, by these: who writes one in a program may mean any of them."""
    found = {}
    for name in dict.fromkeys(names):
        if name.isidentifier() and _read(name) != name:
            found.setdefault(_read(name), []).append(name)
    return found


def _read(name):
    return unicodedata.normalize("NFKC", name)
