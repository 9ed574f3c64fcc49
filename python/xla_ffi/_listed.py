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
    #: The targets that the model calls; None in a file of earlier days.
    targets: Optional[tuple[str, ...]]


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
    return [_listed(about, where) for about in head.get("libraries", [])]


def _listed(about, where):
    file, prefix, digest, targets = (about.get(key) for key in ("file", "prefix", "digest", "targets"))
    signatures = _given.read_back(about)
    texts = isinstance(file, str) and all(each is None or isinstance(each, str) for each in (prefix, digest))
    if targets is not None:
        texts = texts and isinstance(targets, list) and all(isinstance(each, str) for each in targets)
    if not texts or signatures is None:
        raise LibraryError(f"{where}: its list of libraries is damaged")
    return Listed(file, prefix, digest, signatures, None if targets is None else tuple(targets))


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
    real = _file.real(path)
    return Given(real, {os.path.basename(path), os.path.basename(real)}, _file.read(real).digest)


def standing(listed, given):
    """For each library of a list those of ``given`` that may stand for it: the same bytes; or else, of those that are
    nothing of the list byte for byte, what is loaded with its prefix, or a file of its name."""
    digests, prefixes = {each.digest for each in listed}, [each.prefix for each in listed]
    others = [each for each in given if each.digest not in digests]
    found = []
    for entry in listed:
        is_named = lambda each, name=os.path.basename(entry.file): name in each.names
        is_prefixed = lambda each, prefix=entry.prefix: each.prefix is not None and each.prefix == prefix
        same = [each for each in given if each.digest == entry.digest]
        # Of several with these bytes the one that needs not be loaded again, or has the name.
        same.sort(key=lambda each: (not is_prefixed(each), not is_named(each)))
        named = [each for each in others if is_named(each) and (each.prefix is None or each.prefix not in prefixes)]
        prefixed = list(filter(is_prefixed, others))
        both = list(filter(is_named, prefixed))
        found.append(same or both or (prefixed if prefixes.count(entry.prefix) == 1 else []) or named)
    return found


def refuse_ambiguous(listed, stand, where):
    """Refuses what may stand for several builds, and builds that may stand for one."""
    for entry, choices in zip(listed, stand):
        builds = {each.digest: each.path for each in choices}
        if len(builds) > 1:
            raise LibraryError(f"{' and '.join(builds.values())} may both be {entry.file}, which {where} was exported with: give one of them")
        for choice in choices:
            files = {each.digest: each.file for each, theirs in zip(listed, stand) if choice in theirs}
            if len(files) > 1:
                raise LibraryError(
                    f"{choice.path} may be each of {' and '.join(files.values())}, which {where} was exported with, and is neither byte for byte: "
                    f"load it first, with the prefix= that it had, and leave it out here"
                )


def take_place(entry, choice):
    """Loads what stands for a library of the list, under the names that the model calls."""
    library = choice.library
    # This process may have the same bytes from elsewhere.
    has_all = lambda known: all(known._owner in _library.owners({target}) for target in entry.targets or ())
    known = any((each.digest, each.prefix) == (choice.digest, entry.prefix) and has_all(each) for each in _library.loaded())
    if known or (library is not None and library.prefix == entry.prefix):
        return
    said = library._given if library is not None and any(library._given.values()) else entry.signatures
    _library.load(choice.path, entry.prefix, **said)


def other_builds(listed, targets):
    """The files that have registered one of these targets and are not, byte for byte, those that the model was exported with.

    What counts is what is registered: a process that has an earlier build of a file calls that by the file's names.
    """
    of_target, of_name = {}, {}
    for each in listed:
        for target in each.targets or ():
            of_target.setdefault(target, set()).add(each.digest)
        if each.targets is None:
            of_name.setdefault(os.path.basename(each.file), set()).add(each.digest)
    others = set()
    for target in targets:
        for path, digest in _library.owners({target}):
            known = of_target.get(target) or of_name.get(os.path.basename(path)) or {None}
            if not known & {None, digest}:
                others.add(path)
    return sorted(others)
