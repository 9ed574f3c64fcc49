"""Runs the GPU tests or benches of a folder that `cargo xtask gpu-test --build-only` made.

usage: python3 run.py test|bench [--platform cpu] [--quick] [--only PART] [--out DIR]

This needs a Python with JAX. Everything else of the project is in the folder. On a GPU, `test` runs the examples
plainly, with command buffers, and on the embedded runtime. If compute-sanitizer is on PATH or in CUDA_HOME, it also
runs them on the embedded runtime under compute-sanitizer. `bench` writes `gpu-DATE.json`.
"""

import argparse
import datetime
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUFFERS = "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL --xla_gpu_graph_min_graph_size=1"


def libraries(cpu):
    """Returns the libraries as command-line arguments for the drivers. C++ libraries depend on the platform."""
    found = []
    for line in (HERE / "libraries.txt").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        name, _, file = rest.partition("=")
        if kind in ("all", "cpu" if cpu else "cuda"):
            found.append(f"{name}={HERE / file}")
    return found


def sanitizer():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("compute-sanitizer") or shutil.which(f"{home}/bin/compute-sanitizer")


class Runs:
    def __init__(self, options):
        self.cpu = options.platform == "cpu"
        self.common = ["--platform", options.platform, *libraries(self.cpu)]
        if options.quick:
            self.common.append("--quick")
        if self.cpu:
            self.common += ["--driver", str(HERE / "cpu/libcuda.so"), "--device-host", str(HERE / "cpu/libdevice_host.so")]
        self.failed = []
        self.counts = {"ok": 0, "FAIL": 0, "skipped": 0}

    def run(self, what, driver, *arguments, wrapper=(), **variables):
        print(f"== {what}", flush=True)
        environment = dict(os.environ, PYTHONPATH=str(HERE / "python"), PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1")
        environment["JAX_PLATFORMS"] = "cpu" if self.cpu else "cuda"
        environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.6")
        environment.update(variables)
        command = [*wrapper, sys.executable, str(HERE / driver), *self.common, *arguments]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in child.stdout:
            print(line, end="", flush=True)
            word = line.partition(" ")[0]
            if word in self.counts:
                self.counts[word] += 1
        status = child.wait()
        print(f"== {what}: {'ok' if status == 0 else f'FAILED, exit {status}'}\n", flush=True)
        if status != 0:
            self.failed.append(what)

    def skip(self, what, why):
        print(f"skipped {what}: {why}\n", flush=True)
        self.counts["skipped"] += 1

    def test(self, only):
        if only in (None, "examples"):
            self.run("examples", "gpu_examples.py")
        if only in (None, "buffers"):
            flags = " ".join(filter(None, [os.environ.get("XLA_FLAGS"), BUFFERS]))
            self.run("command buffers", "gpu_examples.py", "--command-buffers", XLA_FLAGS=flags)
        if only in (None, "runtime"):
            self.run("the embedded runtime", "gpu_runtime.py")
        if only not in (None, "sanitizer"):
            return
        tool = sanitizer()
        if self.cpu:
            self.skip("compute-sanitizer", "there is nothing of a GPU to check")
        elif tool is None:
            self.skip("compute-sanitizer", "it is neither on PATH nor in CUDA_HOME")
        else:
            # On the embedded runtime, each operand is a separate allocation, so out-of-bounds accesses are detected.
            self.run("compute-sanitizer", "gpu_runtime.py", "--quick", "--sanitizer", tool)

    def bench(self, out):
        out.mkdir(parents=True, exist_ok=True)
        name = "dry-run.json" if self.cpu else f"gpu-{datetime.date.today().isoformat()}.json"
        self.run("bench", "gpu_bench.py", "--out", str(out / name), "--check")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["test", "bench"])
    parser.add_argument("--platform", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", choices=["examples", "buffers", "runtime", "sanitizer"], help="one part of the test")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder for the bench's JSON")
    options = parser.parse_args()
    runs = Runs(options)
    if options.task == "test":
        runs.test(options.only)
    else:
        runs.bench(options.out)
    print(f"{runs.counts['ok']} passed, {runs.counts['FAIL']} failed, {runs.counts['skipped']} skipped")
    if runs.failed:
        sys.exit(f"failed: {', '.join(runs.failed)}")


if __name__ == "__main__":
    main()
