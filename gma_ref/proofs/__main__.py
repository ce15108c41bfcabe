"""Check every claim and print how far it reaches and how long it took: ``python -m gma_ref.proofs``."""

import time

from . import claims


def main():
    """Print one line per claim."""
    start = time.perf_counter()
    for one in claims():
        begin = time.perf_counter()
        one.check()
        seconds = time.perf_counter() - begin
        print(f"{one.label:<5}{one.reach():<48}{seconds:6.2f} s  {one.title}", flush=True)
    print(f"{len(claims())} claims, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
