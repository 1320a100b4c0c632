"""All benchmarks of this folder, one after the other, in one table.

.venv/bin/python bench/run.py [--quick]
"""

from __future__ import annotations

import argparse

import append
import store
from measure import table_of, write_results


def main() -> None:
    """Run everything, print tables, keep results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and pairs")
    quick = parser.parse_args().quick
    for name, bench in (("append", append.rows), ("store", store.rows)):
        measured = bench(pairs=3 if quick else 9, quick=quick)
        print(table_of(measured))
        print(f"kept in {write_results(name, measured)}\n")


if __name__ == "__main__":
    main()
