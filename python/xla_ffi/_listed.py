"""The libraries that a model was exported with, as its file lists them, and those that stand for them where it is loaded."""

import os
from typing import Any, NamedTuple, Optional

from . import _file, _given, _library
from ._errors import LibraryError


class Listed(NamedTuple):
    """A library of a model's list."""

    file: str
    prefix: Optional[str]
    digest: Optional[str]
    #: What its caller said of it, keywords of ``load``.
    signatures: dict[str, Any]
    #: The targets that the model calls.
    targets: tuple[str, ...]


class Given(NamedTuple):
    """A library that a caller gives, as a path or as a loaded one."""

    path: str
    names: set[str]
    digest: str
    library: Any = None

    @property
    def prefix(self):
        return self.library and self.library.prefix


def read(head, where):
    """The list in a model's head."""
    try:
        return [
            Listed(each["file"], each["prefix"], each["digest"], _given.read_back(each), tuple(each["targets"]))
            for each in head.get("libraries", [])
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise LibraryError(f"{where}: its list of libraries is damaged: {error!r}") from error


def written(listed):
    """What :func:`read` reads."""
    plain = ("file", "prefix", "digest", "targets")
    return [{**{name: getattr(each, name) for name in plain}, **_given.written(each.signatures)} for each in listed]


def loaded():
    """The libraries of this process by the targets that they have registered; several have one for a platform each."""
    found = {}
    for library in _library.loaded():
        targets = [handler.target for handler in library.handlers.values() if not handler.refused]
        for target in (*targets, *(each.target for each in library.legacy.values())):
            # One file that is loaded with several descriptions is there once.
            found.setdefault(target, {})[library.path, library.prefix, library.digest] = library
    return {target: list(libraries.values()) for target, libraries in found.items()}


def used(targets, given=()):
    """The list of the loaded libraries that have these targets; where a caller gave one of them, it lies there."""
    places = {each.digest: each.path for each in given}
    theirs = {}
    have = loaded()
    for target in targets:
        for library in have.get(target, ()):
            theirs.setdefault(library, []).append(target)
    place = lambda library: places.get(library.digest, library.path)
    return [Listed(place(library), library.prefix, library.digest, library._given, tuple(calls)) for library, calls in theirs.items()]


def given(each):
    """What a caller gives for a library of the list."""
    if isinstance(each, _library.Library):
        return Given(each.path, {os.path.basename(each.path)}, each.digest, each)
    path = os.fsdecode(each)
    real = os.path.realpath(path)
    return Given(real, {os.path.basename(path), os.path.basename(real)}, _file.read(real).digest)


def standing(listed, given):
    """For each library of a list those of ``given`` that may stand for it: the same bytes; or else, of those that are
    nothing of the list byte for byte, a file of its name, or what is loaded with its prefix."""
    digests = {each.digest for each in listed}
    others = [each for each in given if each.digest not in digests]
    found = []
    for entry in listed:
        stands = lambda each: os.path.basename(entry.file) in each.names or (each.prefix is not None and each.prefix == entry.prefix)
        found.append([each for each in given if each.digest == entry.digest] or list(filter(stands, others)))
    return found


def take_place(entry, choice):
    """Loads what stands for a library of the list, under the names that the model calls."""
    library = choice.library
    # This process may have the same bytes from elsewhere.
    known = any((each.digest, each.prefix) == (choice.digest, entry.prefix) for each in _library.loaded())
    if known or (library is not None and library.prefix == entry.prefix):
        return
    said = library._given if library is not None and any(library._given.values()) else entry.signatures
    _library.load(choice.path, entry.prefix, **said)


def other_builds(listed, targets):
    """The files that have registered one of these targets and are not, byte for byte, those that the model was exported with.

    What counts is what is registered: a process that has an earlier build of a file calls that by the file's names.
    """
    of_target = {}
    for each in listed:
        for target in each.targets:
            of_target.setdefault(target, set()).add(each.digest)
    owners = {target: _library.owners({target}) for target in targets}
    return sorted({path for target, each in owners.items() for path, digest in each if digest not in of_target.get(target, {digest})})
