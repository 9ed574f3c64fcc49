"""Shape contracts: ``"b n k, b k m -> b n m"`` defines the shapes of results from the shapes of arguments.

Operands are separated by commas, dimensions by blanks. A dimension is a name, a number, ``_`` (any size) or ``...``
(any number of dimensions, at most once per operand). A name, and ``...``, has the same value wherever it occurs. ``()``
is a scalar and ``token`` a token. ``?`` after an operand makes it optional, and ``*`` makes it variadic.

A name may be that of an integer attribute of the handler, and then has the attribute's value. Dimensions of results may
be computed from a name: ``2*n``, ``n/2``, ``n+1``, ``n-1``, or several of these in this order without blanks,
``3*n/2-1``. A division with a remainder and a negative size are errors.

The grammar and its error messages are exactly those of the crate ``xla-ffi-contract``, whose tests compare the two.
"""

import dataclasses
import re

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_NUMBER = re.compile(r"[0-9]+")
#: Matches ``times * name / over + plus``, and captures the text of each part.
_COMPUTED = re.compile(r"(?:(?P<times>[^*/+-]*)\*)?(?P<name>[^/+-]*)(?:/(?P<over>[^+-]*))?(?:(?P<sign>[+-])(?P<plus>.*))?")
#: Characters that separate words of a contract: the blanks of ASCII, independently of the locale.
_BLANKS = " \t\n\v\f\r"
_WORD = re.compile(f"[^{_BLANKS}]+")
_MAX_NAMES = 26
_MAX_NUMBER = 2**32 - 1
_MAX_SIZE = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Computed:
    """A computed size of a result: ``times * name / over + plus``."""

    text: str
    name: str
    times: int
    over: int
    plus: int

    def of(self, size):
        """Returns the computed size if the name has the value ``size``.

        Raises a ValueError if the result is not a valid size.
        """
        product = self.times * size
        if not isinstance(product, int):
            return self._symbolic(size, product)
        if product > _MAX_SIZE:
            raise ValueError("is too large")
        if product % self.over:
            raise ValueError("leaves a remainder")
        result = product // self.over + self.plus
        if result > _MAX_SIZE:
            raise ValueError("is too large")
        if result < 0:
            raise ValueError("is negative")
        return result

    def _symbolic(self, size, product):
        """Computes a symbolic size of ``jax.export``, which has no upper limit and is known only through
        constraints."""
        if product % self.over:
            raise ValueError(f"may leave a remainder (pass constraints=['mod({product}, {self.over}) == 0'] to jax.export.symbolic_shape)")
        result = product // self.over + self.plus
        try:
            if result >= 0:
                return result
        except Exception:  # The module of jax's error class depends on the version of jax.
            pass
        raise ValueError(f"may be negative (pass constraints=['{size} >= {-(self.plus * self.over // self.times)}'] to jax.export.symbolic_shape)")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One operand of a contract. A dimension is an int, a name, ``"_"``, ``"..."`` or a ``Computed``."""

    dims: tuple
    token: bool = False
    optional: bool = False
    repeats: bool = False


class Contract:
    """A shape contract, parsed from its text."""

    def __init__(self, text):
        self.text = text
        #: The names of sizes, in order of first use.
        self.names = []
        sides = text.split("->")
        if len(sides) != 2:
            raise self._wrong(
                'a shape contract has one `->` between arguments and results, as in "b n k, b k m -> b n m"; '
                f"this one has {len(sides) - 1}"
            )
        self.args = self._side(sides[0], computes=False)
        self.rets = self._side(sides[1], computes=True)

    @property
    def batchable(self):
        """Whether every operand starts with ``...``, so that it accepts additional leading dimensions."""
        return all(entry.dims[:1] == ("...",) for entry in self.args + self.rets)

    def infer(self, names, shapes, attrs=None, dtypes=None):
        """Returns the result shapes, without tokens. The shape of a result is None if the contract does not determine
        it.

        ``shapes`` are the argument shapes without tokens. ``attrs`` maps integer attributes to their values, with
        defaults filled in. ``names`` and ``dtypes`` are used in error messages only.
        """
        known, given = self._attributes(attrs or {}), list(zip(names, shapes, dtypes or [""] * len(names)))
        arrays = [entry for entry in self.args if not entry.token]
        miscounted = f"the contract `{self.text}` has {len(arrays)} argument{'s' if len(arrays) != 1 else ''}, the call has {len(shapes)}"
        for entry in arrays:
            if not given and not (entry.optional or entry.repeats):
                raise ValueError(miscounted)
            while given:
                name, shape, dtype = given.pop(0)
                self._match(name, dtype, entry.dims, tuple(shape), known)
                if not entry.repeats:
                    break
        if given:
            raise ValueError(miscounted)
        rets = [entry for entry in self.rets if not entry.token]
        return [self._build(index, entry.dims, known) for index, entry in enumerate(rets)]

    def _attributes(self, attrs):
        """Returns the sizes that attributes give to names, and the origin of each size for error messages."""
        known = {}
        for name in self.names:
            if name in attrs:
                value = int(attrs[name])
                if not 0 <= value <= _MAX_SIZE:
                    raise ValueError(
                        f"attribute `{name}`: expected a size, got {value}; the contract is `{self.text}`"
                    )
                known[name] = value, f"attribute `{name}`"
        return known

    def _match(self, name, dtype, dims, shape, known):
        def wrong(why=""):
            wanted = ", ".join("?" if dim == "_" else str(dim) for dim in dims)
            return ValueError(f"{name}: expected {dtype}[{wanted}]{why}, got {dtype}{list(shape)}; the contract is `{self.text}`")

        ellipsis = "..." in dims
        fixed = len(dims) - ellipsis
        if len(shape) < fixed or (len(shape) > fixed and not ellipsis):
            raise wrong()
        rest = list(shape)
        for dim in dims:
            if dim == "...":
                here = [rest.pop(0) for _ in range(len(shape) - fixed)]
            else:
                here = rest.pop(0)
            if dim == "_":
                continue
            if isinstance(dim, int):
                if dim != here:
                    raise wrong()
                continue
            size, origin = known.setdefault(dim, (here, name))
            if size != here:
                raise wrong(f" with {dim} = {size} from {origin}")

    def _build(self, index, dims, known):
        shape = []
        for dim in dims:
            word = dim.name if isinstance(dim, Computed) else dim
            if isinstance(dim, int):
                shape.append(dim)
                continue
            if word not in known:
                return None
            size, origin = known[word]
            if dim == "...":
                shape.extend(size)
                continue
            if isinstance(dim, Computed):
                try:
                    size = dim.of(size)
                except ValueError as why:
                    raise ValueError(
                        f"result {index}: {dim.text} {why} for {word} = {size} from {origin}; "
                        f"the contract is `{self.text}`"
                    ) from None
            shape.append(size)
        return tuple(shape)

    def _side(self, side, computes):
        entries = [self._entry(text.strip(_BLANKS), computes) for text in side.split(",")] if side.strip(_BLANKS) else []
        if any(entry.repeats for entry in entries[:-1]):
            raise self._wrong("only the last entry of a side may repeat (`*`)")
        return entries

    def _entry(self, whole, computes):
        text, repeats, optional = whole, whole.endswith("*"), False
        if repeats:
            text = text[:-1].rstrip(_BLANKS)
        if text.endswith("?"):
            text, optional = text[:-1].rstrip(_BLANKS), True
        if optional and repeats:
            raise self._wrong(f"`{whole}`: `*` already includes no operands; remove the `?`")
        options = {"optional": optional, "repeats": repeats}
        if not text:
            raise self._wrong("an entry is empty; a scalar is `()`")
        if text in ("()", "token"):
            return Entry((), token=text == "token", **options)
        dims = tuple(self._dim(word, computes) for word in _WORD.findall(text))
        if dims.count("...") > 1:
            raise self._wrong(f"`{text}` has more than one `...`")
        return Entry(dims, **options)

    def _dim(self, word, computes):
        if word in ("...", "_"):
            return word
        number = self._number(word)
        if number is not None:
            return number
        if not re.search(r"[-+*/]", word):
            return self._name(word, word)
        parts = _COMPUTED.fullmatch(word)
        if parts is None:
            raise self._no_dimension(word)
        # The name is checked first, because its errors are more specific.
        name = self._name(parts["name"], word)

        def part(key, none):
            number = none if parts[key] is None else self._number(parts[key])
            if number is None:
                raise self._no_dimension(word)
            return number

        times, over = part("times", 1), part("over", 1)
        if times == 0 or over == 0:
            raise self._wrong(f"`{word}` multiplies or divides by 0")
        plus = part("plus", 0)
        if not computes:
            raise self._wrong(f"`{word}` is in an argument, but only results can compute a size")
        return Computed(word, name, times, over, -plus if parts["sign"] == "-" else plus)

    def _number(self, word):
        if not _NUMBER.fullmatch(word):
            return None
        digits = word.lstrip("0") or "0"
        # The number of digits is checked first, because `int` refuses very long numbers.
        if len(digits) > len(str(_MAX_NUMBER)) or int(digits) > _MAX_NUMBER:
            raise self._wrong(f"`{word}` is too large for a size")
        return int(digits)

    def _name(self, name, word):
        if name == "_" or not _NAME.fullmatch(name):
            raise self._no_dimension(word)
        if name not in self.names:
            if len(self.names) == _MAX_NAMES:
                raise self._wrong(f"more than {_MAX_NAMES} named sizes")
            self.names.append(name)
        return name

    def _no_dimension(self, word):
        return self._wrong(
            f"`{word}` is not a dimension; write a name, a number, `_` or `...`, in results also `2*n`, `n/2`, `n+1`, `n-1`"
        )

    def _wrong(self, why):
        return ValueError(f"contract `{self.text}`: {why}")
