"""Which revision of the ABI a jaxlib has."""

import re

from ._facts import REVISIONS, YANKED

# jaxlib tells Python nothing of the revision that it was built with: the version number is all there is. (Its
# function table would tell a handler, but a handler has to be registered before it is called.)


def _numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0].split(".dev")[0]))


def of(version):
    """The revision of jaxlib ``version``; -1 for one older than the first."""
    if version in YANKED:
        return YANKED[version]
    return sum(_numbers(first) <= _numbers(version) for first, _minor in REVISIONS) - 1


def first_jaxlib(revision):
    """The first jaxlib with ``revision``, or None for one that this package does not know."""
    return REVISIONS[revision][0] if revision < len(REVISIONS) else None


def version(revision):
    """The minor version that a runtime of this revision states; each that is yet to come raises it."""
    newest = len(REVISIONS) - 1
    return REVISIONS[min(revision, newest)][1] + max(0, revision - newest)
