"""`make spread`: repeat from several seeds what a page trains once.

Each module of `measure.spreads` holds the runs of one page and leaves a report of its
own, book/reports' spread_PAGE.json.
"""

import argparse
import importlib
import pkgutil
import time
from collections.abc import Sequence

import torch
from measure import report, spreads

PAGES = [module.name for module in pkgutil.iter_modules(spreads.__path__)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "pages",
        nargs="*",
        metavar="PAGE",
        help="the pages to run, all if none is named: " + ", ".join(PAGES),
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two seeds and two steps, to see that it works",
    )
    options = parser.parse_args(arguments)
    if unknown := [page for page in options.pages if page not in PAGES]:
        parser.error(f"no runs for {unknown[0]!r}; choose from {', '.join(PAGES)}")
    torch.set_num_threads(1)
    for page in options.pages or PAGES:
        start = time.process_time()
        rows = list(
            importlib.import_module(f"measure.spreads.{page}").rows(options.quick)
        )
        name = f"spread_{page}" + ("-quick" if options.quick else "")
        report.write(name, rows, time.process_time() - start, report.REPORTS)


if __name__ == "__main__":
    main()
