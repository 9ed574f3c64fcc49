"""What :func:`xla_ffi.check` has found."""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Line:
    """One check: its name, what was found (``ok``, ``FAIL``, ``told`` or ``skipped``), and in words."""

    name: str
    verdict: str
    text: str


class Report:
    """The checks of one handler. It is true when none failed, and shows itself in words, so that a test is one line::

        assert xla_ffi.check(lib.rms_norm, x, eps=1e-6)
    """

    def __init__(self, handler, host, lines):
        #: The handler's name.
        self.handler = handler
        #: Where it was checked, ``jaxlib 0.12.0`` for instance.
        self.host = host
        #: A :class:`Line` for each check.
        self.lines = tuple(lines)

    @property
    def failures(self):
        """The lines that failed."""
        return tuple(line for line in self.lines if line.verdict == "FAIL")

    def __bool__(self):
        return not self.failures

    def __getitem__(self, name):
        """The line of a check."""
        return {line.name: line for line in self.lines}[name]

    def __repr__(self):
        counts = {verdict: sum(line.verdict == verdict for line in self.lines) for verdict in ("ok", "FAIL", "told", "skipped")}
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        texts = (f"  {line.verdict:<8}{line.name}: {line.text}".replace("\n", "\n          ") for line in self.lines)
        return "\n".join([f"{self.handler} on {self.host}: {words}", *texts])

    def to_json(self):
        """The report as JSON text: ``handler``, ``host``, ``ok``, and ``lines`` with ``name``, ``verdict`` and ``text``."""
        lines = [dataclasses.asdict(line) for line in self.lines]
        return json.dumps({"handler": self.handler, "host": self.host, "ok": bool(self), "lines": lines})
