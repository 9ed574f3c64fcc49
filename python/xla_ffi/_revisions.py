"""Which revision of the ABI a jaxlib has."""

import re

# jaxlib tells Python nothing of the revision that it was built with: the version number is all there is. (Its
# function table would tell a handler, but a handler has to be registered before it is called.)

# The first jaxlib of each revision, oldest first; checked against ffi-sys by xtask's tests.
FIRST_JAXLIB = (
    "0.4.31", "0.4.33", "0.4.34", "0.4.38", "0.5.1", "0.6.0", "0.8.0", "0.8.1", "0.9.1", "0.11.1", "0.12.0",
)  # fmt: skip


def _numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0].split(".dev")[0]))


def of(version):
    """The revision of jaxlib ``version``; -1 for one older than the first."""
    return sum(_numbers(first) <= _numbers(version) for first in FIRST_JAXLIB) - 1


def first_jaxlib(revision):
    """The first jaxlib with ``revision``, or None for one that this package does not know."""
    return FIRST_JAXLIB[revision] if revision < len(FIRST_JAXLIB) else None


def version(revision):
    """The minor version that a runtime of this revision states."""
    return 0 if revision == 0 else max(1, revision - 5)
