"""The steps of `cargo xtask adopters` that need Python: fetch and unpack an sdist, build it, run its tests.

Each command prints its result as JSON.
"""

import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import xml.etree.ElementTree as xml
import zipfile

# Matches the names of compiled libraries in a wheel.
LIBRARY = re.compile(r"\.so(\.\d+)*$")
WARNING = re.compile(r"^(\S+?):\d+:.*\bwarning: ", re.MULTILINE)
# Matches paths of this SDK's headers. gcc continues a warning about a different file with lines that contain such a
# path, but not the word "warning".
HEADERS = re.compile(r"\b(xla/ffi/|xla_ffi/)")


def fetch(lock, sha256, sdist):
    """Downloads the sdist in a uv lock file and checks its checksum."""
    [package] = tomllib.loads(pathlib.Path(lock).read_text())["packages"]
    if "sdist" not in package:
        sys.exit(f"{package['name']} {package['version']} has no sdist")
    with urllib.request.urlopen(package["sdist"]["url"]) as response:
        content = response.read()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        sys.exit(f"the sdist's sha256 is {found}, expected {sha256}")
    pathlib.Path(sdist).write_bytes(content)


def unpack(sdist, folder, *paths):
    """Unpacks an sdist without its top folder. If paths are passed, unpacks only these paths."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        for member in archive:
            _, _, member.name = member.name.partition("/")
            wanted = any(member.name == path or member.name.startswith(path + "/") for path in paths)
            if member.name and (wanted or not paths):
                archive.extract(member, folder, filter="data")


def build_requirements(folder):
    """Returns the build requirements of a project except jax, plus tools that build backends commonly need."""
    file = pathlib.Path(folder, "pyproject.toml")
    system = tomllib.loads(file.read_text()).get("build-system", {}) if file.is_file() else {}
    requirements = system.get("requires", ["setuptools", "wheel"])
    jax = re.compile(r"jax(lib)?\b(?!-)")
    return [name for name in requirements if not jax.match(name)] + ["cmake", "ninja", "setuptools-scm"]


def run(limit, log, command):
    """Runs a command for at most `limit` seconds.

    Returns the reason why the command failed (None if the exit status is 0) and the CPU time of the command.
    """
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(float(limit))
            crash = f"crashed: {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            ended = crash if status else None
        except subprocess.TimeoutExpired:
            ended = f"timed out after {limit} s"
        # Child processes of the command may still be running.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended, used.ru_utime + used.ru_stime


def build(limit, log, wheels, *command):
    """Runs a command that writes a wheel to a folder, and returns measurements of the build and the wheel."""
    ended, seconds = run(limit, log, command)
    wheel = next(pathlib.Path(wheels).glob("*.whl"), None)
    if ended or not wheel:
        tail = pathlib.Path(log).read_text(errors="replace")[-4000:]
        sys.exit(f"{tail}\nthe build failed: {ended or 'no wheel'} ({os.path.abspath(log)})")
    paths = WARNING.findall(pathlib.Path(log).read_text(errors="replace"))
    with zipfile.ZipFile(wheel) as archive:
        sizes = [file.file_size for file in archive.infolist() if LIBRARY.search(file.filename)]
    return {
        "wheel": str(wheel),
        "seconds": round(seconds, 1),
        "warnings": len(paths),
        "header_warnings": sum(bool(HEADERS.search(path)) for path in paths),
        "bytes": sum(sizes),
    }


def message(problem):
    """Returns the message of an error or failure in a JUnit report.

    If a module cannot be imported, the message is the end of the traceback.
    """
    lines = [line[1:].strip() for line in (problem.text or "").splitlines() if line.startswith("E ")]
    return " ".join(lines) if problem.get("message") == "collection failure" else problem.get("message")


def test(limit, log, report, *command):
    """Runs pytest and returns the counts in its JUnit report."""
    pathlib.Path(report).unlink(missing_ok=True)
    ended, _ = run(limit, log, command)
    counts = dict.fromkeys(["passed", "failed", "errors", "skipped"], 0)
    reason = None
    if pathlib.Path(report).is_file():
        suites = list(xml.parse(report).iter("testsuite"))
        total = lambda key: sum(int(suite.get(key)) for suite in suites)
        counts = {"failed": total("failures"), "errors": total("errors"), "skipped": total("skipped")}
        counts["passed"] = total("tests") - sum(counts.values())
        problems = [case for name in ("failure", "error") for case in xml.parse(report).iter(name)]
        reason = next(map(message, problems), None)
        # The report has more details than pytest's exit status.
        ended = None if ended and ended.startswith("exit status") else ended
    return counts | {"ended": ended, "reason": reason and reason[:400]}


if __name__ == "__main__":
    json.dump(globals()[sys.argv[1]](*sys.argv[2:]), sys.stdout)
