"""Shape contracts: ``"b n k, b k m -> b n m"`` says how result shapes follow from argument shapes.

Operands are separated by commas, dimensions by blanks. A dimension is a name (equal wherever it
occurs), a number, ``_`` (any), or, once an operand, ``...`` (any number of dimensions, the same
ones wherever it occurs). ``()`` is a scalar and ``token`` a token; ``?`` after an operand says that
it may be absent, ``*`` that it stands for all that are left.
"""

import dataclasses
import re

_NAME = re.compile(r"[^\W\d]\w*")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One operand of a contract."""

    dims: tuple
    token: bool = False
    optional: bool = False
    repeats: bool = False


class Contract:
    """A parsed contract."""

    def __init__(self, text):
        self.text = text
        sides = text.split("->")
        if len(sides) != 2:
            raise ValueError(f"shape contract {text!r}: expected one '->'")
        self.args, self.rets = (self._side(side) for side in sides)

    @property
    def batchable(self):
        """Whether every operand starts with ``...``, so that further leading dimensions are welcome."""
        return all(entry.dims[:1] == ("...",) for entry in self.args + self.rets)

    def infer(self, names, shapes):
        """Result shapes for argument ``shapes``; ``names`` are for the error text.

        Tokens are left away on both sides. A result whose shape does not follow from the arguments
        is None.
        """
        known, given = {}, list(zip(names, shapes))
        arrays = [entry for entry in self.args if not entry.token]
        for entry in arrays:
            if not given and not (entry.optional or entry.repeats):
                raise ValueError(f"the contract {self.text!r} has {len(arrays)} arguments, got {len(shapes)}")
            while given:
                name, shape = given.pop(0)
                self._match(name, entry.dims, tuple(shape), known)
                if not entry.repeats:
                    break
        if given:
            raise ValueError(f"the contract {self.text!r} has {len(arrays)} arguments, got {len(shapes)}")
        return [self._build(entry.dims, known) for entry in self.rets if not entry.token]

    def batch_dims(self, shape):
        """How many dimensions ``...`` stands for in a first argument of this shape."""
        return len(shape) - len(self.args[0].dims) + 1

    def _match(self, name, dims, shape, known):
        def wrong(why):
            raise ValueError(f"{name} has shape {list(shape)}, but the contract {self.text!r} {why}")

        if "..." in dims:
            at = dims.index("...")
            after = len(dims) - at - 1
            if len(shape) < at + after:
                wrong(f"wants at least {at + after} dimensions there")
            middle = shape[at : len(shape) - after]
            pairs = list(zip(dims[:at], shape[:at])) + [("...", middle)]
            pairs += list(zip(dims[at + 1 :], shape[len(shape) - after :]))
        else:
            if len(shape) != len(dims):
                wrong(f"wants {len(dims)} dimensions there")
            pairs = list(zip(dims, shape))
        for dim, size in pairs:
            if dim == "_":
                continue
            if isinstance(dim, int):
                if dim != size:
                    wrong(f"wants {dim} where {size} is")
            elif dim in known and known[dim] != size:
                shown = list(known[dim]) if dim == "..." else known[dim]
                wrong(f"has {dim} = {shown} from an earlier argument")
            else:
                known[dim] = size

    @staticmethod
    def _build(dims, known):
        shape = []
        for dim in dims:
            if isinstance(dim, int):
                shape.append(dim)
            elif dim not in known:
                return None
            elif dim == "...":
                shape.extend(known[dim])
            else:
                shape.append(known[dim])
        return tuple(shape)

    def _side(self, side):
        entries = [self._entry(text.strip()) for text in side.split(",")] if side.strip() else []
        if any(entry.repeats for entry in entries[:-1]):
            raise self._wrong("only the last operand of a side may repeat ('*')")
        return entries

    def _entry(self, text):
        mark = text[-1:] if text[-1:] in ("?", "*") else ""
        text = text.removesuffix(mark).rstrip()
        options = {"optional": mark == "?", "repeats": mark == "*"}
        if text in ("()", "token"):
            return Entry((), token=text == "token", **options)
        if not text:
            raise self._wrong("an operand is empty; a scalar is '()'")
        dims = []
        for word in text.split():
            if word.isascii() and word.isdigit():
                dims.append(int(word))
            elif word in ("...", "_") or _NAME.fullmatch(word):
                dims.append(word)
            else:
                raise self._wrong(f"{word!r} is no dimension")
        if dims.count("...") > 1:
            raise self._wrong("'...' occurs twice in one operand")
        return Entry(tuple(dims), **options)

    def _wrong(self, why):
        return ValueError(f"shape contract {self.text!r}: {why}")
