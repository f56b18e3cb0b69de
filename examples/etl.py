"""An ETL over real files, as a flow with a fan-out: how big are the packages of your Python's standard library?

python examples/etl.py

extract, one task a package ──> gather ──> write etl.csv
"""

import ast
import csv
from pathlib import Path

from tickless import Scheduler

HOME = Path(ast.__file__).parent  # where this Python keeps its own sources
PACKAGES = [name for name in ("asyncio", "email", "json", "logging", "sqlite3", "unittest") if (HOME / name).is_dir()]


def extract(package: str) -> dict[str, object]:
    """Read every source file of the package: its lines, and the functions that they define."""
    lines = functions = 0
    for file in sorted((HOME / package).glob("*.py")):
        text = file.read_text("utf-8")
        lines += len(text.splitlines())
        functions += sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(ast.parse(text)))
    return {"package": package, "lines": lines, "functions": functions}


def gather(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: row["lines"], reverse=True)  # type: ignore[arg-type,return-value]


def write(rows: list[dict[str, object]], path: str) -> int:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, ["package", "lines", "functions"])
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


with Scheduler() as scheduler:
    with scheduler.flow("etl", params={"path": "etl.csv"}) as flow:  # without a rule: one round, now
        found = [flow.task(extract, args=(package,), name=f"extract-{package}") for package in PACKAGES]
        rows = flow.task(gather, args=([one.output for one in found],))
        flow.task(write, args=(rows.output, flow.param("path")))
    flow.wait()
    (only,) = flow.rounds()
    print(only)
    print(f"{only['write'].result()} packages, the biggest is {only['gather'].result()[0]['package']}: see etl.csv")
