"""Answers the cases on standard input, a JSON list, with the contracts of the Python package.

Started by `tests/python.rs` with the path of `_contract.py`.
"""

import importlib.util
import json
import sys

spec = importlib.util.spec_from_file_location("contract", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["contract"] = module
spec.loader.exec_module(module)


def answer(case):
    text, args = case["contract"], case["args"]
    try:
        contract = module.Contract(text)
    except ValueError as error:
        return {"wrong": str(error).removeprefix(f"shape contract {text!r}: ")}
    try:
        shapes = contract.infer([f"argument {i}" for i in range(len(args))], args, case["attrs"])
    except ValueError as error:
        return {"error": str(error)}
    return {"rets": shapes}


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
