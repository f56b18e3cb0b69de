"""The in-memory scheduler beside the bare limit and its peers: `make bench`.

Prints what is asked and what was reached, then every figure. It is no test: it fails (exit code 1) only when a measure
failed, never because one was slow.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments import all_experiments
from harness import machine, run
from table import document


def main() -> int:
    options = _options()
    experiments = all_experiments(options.quick)
    if options.only:
        experiments = [one for one in experiments if any(one.key.startswith(word) for word in options.only)]
    if options.list or not experiments:
        keys = [one.key for one in all_experiments(options.quick)]
        print("rows:", " ".join(keys), file=sys.stdout if options.list else sys.stderr)
        return 0 if options.list else 2
    rounds = options.repeat or (1 if options.quick else 5)
    where = machine()
    measured = [(one, run(one, rounds, options.contender, _say)) for one in experiments]
    text = document(where, rounds, measured)
    print(text)
    if options.write:
        options.write.write_text("# Results: the in-memory scheduler\n\n" + text, encoding="utf-8")
    return 1 if any(figures.failed for _, figures in measured) else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/memory.py", description=__doc__)
    parser.add_argument("--only", action="append", metavar="ROW", help="rows whose key begins so; may be repeated")
    parser.add_argument(
        "--contender",
        action="append",
        default=[],
        metavar="WORD",
        help="contenders with this word in their name, e.g. limit; may be repeated",
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="rounds; 5, or 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="one round of smaller numbers and shorter spans")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables to this file as well")
    parser.add_argument("--list", action="store_true", help="print the keys of the rows")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
