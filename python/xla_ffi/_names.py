"""Names in a manifest, and which of them Python takes."""

import keyword
import unicodedata


def plain(name):
    """Whether a name can be an attribute's or a parameter's: one that Python takes, as it is written."""
    read = unicodedata.normalize("NFKC", name)
    return name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__" and read == name
