"""The examples' libraries as the task hands them to a driver: ``LANGUAGE:EXAMPLE=PATH``, without a path where the language
has no compiler here."""

import dataclasses
import functools
import json
import pathlib

from checks import skip

_TABLE = pathlib.Path(__file__).resolve().parents[2] / "examples/examples.json"


@functools.cache
def table():
    """Every example of the table by its name."""
    with open(_TABLE, encoding="utf-8") as file:
        return {entry["example"]: entry for entry in json.load(file)}


@dataclasses.dataclass(frozen=True)
class Built:
    """One example's library in one language."""

    name: str
    language: str
    example: str
    file: str

    @property
    def path(self):
        """The library's file; skips the check where there is none."""
        return self.file or skip(f"no {self.language} compiler")

    @property
    def calls(self):
        """The example's calls that are for this language."""
        return [call for call in table()[self.example]["calls"] if self.language in call.get("languages", [self.language])]


def built(arguments):
    """The libraries that a driver's arguments name."""
    for argument in arguments:
        name, _, file = argument.partition("=")
        language, _, example = name.partition(":")
        yield Built(name, language, example, file)
