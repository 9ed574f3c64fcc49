"""Tests the GPU examples without JAX, on the embedded runtime's CUDA device, and runs the runtime's own device tests.

usage: gpu_runtime.py [--quick] [--sanitizer PROGRAM] LANGUAGE:EXAMPLE=LIBRARY…

`bin/xla-ffi` and `bin/runtime-tests` must be in this file's folder. See gpu.py for ``--platform cpu``.
"""

import os
import pathlib
import re
import subprocess
import tempfile

import gpu
import numpy as np
from checks import check, finish, skip

HERE = pathlib.Path(__file__).resolve().parent


def numbers(*shape):
    return np.random.default_rng(len(shape)).uniform(-2, 2, shape).astype(np.float32)


EPS = 1e-3


def rms_norm(x):
    return x / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=-1, keepdims=True) + EPS)


def rms_norm_grad(x, dy):
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    r = 1 / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPS)
    return r * dy - x * r**3 * np.mean(x * dy, axis=-1, keepdims=True)


#: Row lengths for every kernel: several rows per block, one row per block, rows that exceed the registers, rows without
#: whole vectors.
ROWS = [(3, 4), (2, 1028), (2, 20000), (2, 40000), (3, 1001)]


#: The cases: library, handler, attributes, arguments, expected results in double precision, relative error.
def cases(quick):
    n = 3000 if quick else 1 << 22
    x, y, few = numbers(n), numbers(n)[::-1].copy(), numbers(128)
    norms = []
    for shape in [*ROWS, *([] if quick else [(4096, 4096)])]:
        rows, dy = numbers(*shape), numbers(*shape)[::-1].copy()
        norms.append(("rms_norm", "rms_norm", "eps = 1.0e-3 : f32", [rows], rms_norm(rows), 1e-5))
        norms.append(("rms_norm", "rms_norm_grad", "eps = 1.0e-3 : f32", [rows, dy], rms_norm_grad(rows, dy), 1e-5))
    return [
        *norms,
        ("kernels", "axpy", "a = 3.0 : f32", [x, y], 3.0 * x.astype(np.float64) + y, 1e-6),
        ("kernels", "tiled_add", "", [few, x], np.resize(few, n) + x, 0),
        ("kernels", "sum", "", [x], x.astype(np.float64).sum(), 1e-4),
        ("kernels", "polynomial", "coefficients = array<f32: 1.0, 2.0, 3.0>", [x], 1 + 2.0 * x + 3.0 * x.astype(np.float64) ** 2, 1e-5),
    ]


class Tool:
    """The command-line tool on a CUDA device."""

    def __init__(self, environment, stands_in, sanitizer):
        self.environment, self.stands_in = environment, stands_in
        # Report every error, except failed queries for optional driver features.
        flags = ["--error-exitcode", "1", "--print-limit", "20", "--report-api-errors", "no"]
        self.wrappers = [[sanitizer, "--tool", tool, *flags] for tool in ["memcheck", "racecheck", "initcheck"]] if sanitizer else [[]]

    def run(self, *arguments):
        for wrapper in self.wrappers:
            ran = self.run_once(wrapper, *arguments)
            if ran.returncode != 0:
                break
        return ran

    def run_once(self, wrapper, *arguments):
        command = [*wrapper, HERE / "bin/xla-ffi", "run", *map(str, arguments)]
        # CUDA's tools trace only one process, and print their findings to its standard output.
        command += ["--in-this-process"] if wrapper else []
        return subprocess.run(command, env=self.environment, capture_output=True, text=True)

    def compare(self, library, handler, attributes, arguments, wanted, error):
        if handler == ["cpp_axpy"] and self.stands_in:
            skip("what it launches is compared, and its kernel is the host's here: no driver hears of it")
        with tempfile.TemporaryDirectory() as folder:
            options = []
            for index, array in enumerate(arguments):
                path = f"{folder}/{index}.npy"
                np.save(path, array)
                options += ["--arg", f"f32[{','.join(map(str, array.shape))}]=@{path}"]
            out = f"{folder}/out.npz"
            shape = ",".join(map(str, np.shape(wanted)))
            ran = self.run(
                library, "--handler", *handler, "--device", "cuda", "--attrs", attributes, *options, "--ret", f"f32[{shape}]", "--output", out
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            with np.load(out) as results:
                (got,) = results.values()
        np.testing.assert_allclose(got, wanted, rtol=max(error, 1e-6), atol=error)

    def refuses(self, text, *arguments):
        ran = self.run(*arguments)
        assert ran.returncode == 1 and text in ran.stderr, (ran.returncode, ran.stderr)


def tests(environment):
    """Runs the runtime's own tests of its CUDA device."""
    ran = subprocess.run([HERE / "bin/runtime-tests", "cuda"], env=environment, capture_output=True, text=True)
    counted = re.search(r"test result: ok\. (\d+) passed", ran.stdout)
    assert ran.returncode == 0 and counted and int(counted[1]) > 0, ran.stdout + ran.stderr


def main():
    parser = gpu.arguments(__doc__)
    parser.add_argument("--sanitizer", help="compute-sanitizer, under which the examples run, and nothing else")
    options = parser.parse_args()
    environment = dict(os.environ)
    if options.driver:
        environment["LD_LIBRARY_PATH"] = str(pathlib.Path(options.driver).parent)
    if not options.sanitizer:
        check("runtime: its tests of a CUDA device", lambda: tests(environment))
    tool = Tool(environment, bool(options.driver), options.sanitizer)
    libraries = dict(entry.split("=", 1) for entry in options.libraries)
    for language in ["rust", "cpp"]:
        for example, handler, *rest in cases(options.quick or bool(options.driver)):
            library, symbol = libraries[f"{language}:{example}"], gpu.PREFIXES[language] + handler
            # The C++ libraries have no manifest, so stages and state types are passed as options.
            if (language, handler) == ("cpp", "polynomial"):
                symbol = [f"execute={symbol},instantiate={symbol}_instantiate", "--type", f"Polynomial={symbol}_type_id,{symbol}_type_info"]
            else:
                symbol = [symbol]
            what = "sanitizer" if options.sanitizer else "runtime"
            shapes = ", ".join(f"f32{list(array.shape)}" for array in rest[1])
            check(f"{what}: {language} {handler} of {shapes}", lambda rest=rest, at=(library, symbol): tool.compare(*at, *rest))
    if options.sanitizer:
        return finish()
    fickle = [libraries["rust:probe"], "--handler", "fickle", "--device", "cuda", "--arg", "f32[3]=ones"]
    check(
        "runtime: a wrong declaration for command buffers",
        lambda: tool.refuses("two captured calls differ", *fickle, "--attrs", "idle = false"),
    )
    check(
        "runtime: a device that is not there",
        lambda: tool.refuses("cuDeviceGet(99)", *fickle[:-4], "--device", "cuda:99", "--arg", "f32[3]=ones", "--attrs", "idle = true"),
    )
    finish()


if __name__ == "__main__":
    main()
