"""What `make bench` measures, one after the other, in one table.

    .venv/bin/python -m bench.run [--quick]

Prints the table, keeps it in ``bench/results/`` and writes ``docs/benchmarks.md`` anew. A quick run
only prints.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from bench.cluster import latency, receive, served_filters, tls
from bench.measure import Row, table_of, write_results
from bench.pages.benchmarks import write_page
from bench.store import append, columns, filters, reading


def main() -> None:
    """Run everything, print the table, keep results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and pairs, nothing kept")
    quick = parser.parse_args().quick
    benches: dict[str, Callable[..., list[Row]]] = {
        "append": append.rows,
        "columns": columns.rows,
        "filters": filters.rows,
        "latency": latency.rows,
        "receive": receive.rows,
        "served_filters": served_filters.rows,
        "store": reading.rows,
        "tls": tls.rows,
    }
    measured: list[Row] = []
    for name, bench in benches.items():
        rows = bench(pairs=3 if quick else 9, quick=quick)
        measured += rows
        if not quick:
            write_results(name, rows)
    print(table_of(measured))
    if not quick:
        print(f"\nkept in bench/results, shown in {write_page()}")


if __name__ == "__main__":
    main()
