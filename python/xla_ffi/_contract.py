"""Shape contracts: ``"b n k, b k m -> b n m"`` says how result shapes follow from argument shapes.

Operands are separated by commas, dimensions by blanks. A dimension is a name (equal wherever it
occurs), a number, ``_`` (any), or, once an operand, ``...`` (any number of dimensions, the same
ones wherever it occurs).
"""

import re

_NAME = re.compile(r"[^\W\d]\w*")


class Contract:
    """A parsed contract."""

    def __init__(self, text):
        self.text = text
        sides = text.split("->")
        if len(sides) != 2:
            raise ValueError(f"shape contract {text!r}: expected one '->'")
        self.args, self.rets = ([self._operand(part) for part in self._split(side)] for side in sides)
        bound = {dim for dims in self.args for dim in dims}
        for dims in self.rets:
            for dim in dims:
                if dim == "_" or (isinstance(dim, str) and dim not in bound):
                    raise ValueError(f"shape contract {text!r}: {dim!r} of a result occurs in no argument")

    @property
    def batchable(self):
        """Whether every operand starts with ``...``, so that further leading dimensions are welcome."""
        return all(dims[:1] == ["..."] for dims in self.args + self.rets)

    def infer(self, names, shapes):
        """Result shapes for argument ``shapes``; ``names`` are for the error text."""
        if len(shapes) != len(self.args):
            raise ValueError(f"the contract {self.text!r} has {len(self.args)} arguments, got {len(shapes)}")
        known = {}
        for name, dims, shape in zip(names, self.args, shapes):
            self._match(name, dims, tuple(shape), known)
        return [self._build(dims, known) for dims in self.rets]

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
            if dim == "...":
                shape.extend(known[dim])
            else:
                shape.append(known[dim] if isinstance(dim, str) else dim)
        return tuple(shape)

    @staticmethod
    def _split(side):
        return side.split(",") if side.strip() else []

    def _operand(self, text):
        dims = []
        for word in text.split():
            if word.isascii() and word.isdigit():
                dims.append(int(word))
            elif word in ("...", "_") or _NAME.fullmatch(word):
                dims.append(word)
            else:
                raise ValueError(f"shape contract {self.text!r}: {word!r} is no dimension")
        if dims.count("...") > 1:
            raise ValueError(f"shape contract {self.text!r}: '...' occurs twice in one operand")
        return dims
