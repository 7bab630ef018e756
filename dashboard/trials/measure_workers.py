"""How much faster two processes analyse than one: `python -m warpwatch.dashboard.trials.measure_workers DATABASE`.

The series of a store are marked stale and analysed again by one and by two processes in turn. On a shared machine the
quickest of several rounds is the fairest; the time this process takes by itself bounds what more of them could bring.
"""

import time

import click
from sqlalchemy import select

from warpwatch.dashboard.analysis import analyse
from warpwatch.dashboard.parallel import local_workers, one_apart
from warpwatch.dashboard.store import Store, tables
from warpwatch.dashboard.store.point_buffer import mark_stale


@click.command()
@click.argument("database")
@click.option("--series", type=int, default=1000, show_default=True)
@click.option("--rounds", type=int, default=3, show_default=True)
def main(database: str, series: int, rounds: int) -> None:
    """Analyse the first series of DATABASE again and again; their findings stay what they are."""
    store = Store(database)
    best: dict[int, float] = {}
    own = 0.0
    for _ in range(rounds):
        for count in (1, 2):
            with store.write("measure") as connection:
                ids = connection.execute(
                    select(tables.series.c.id).order_by(tables.series.c.id).limit(series)
                ).scalars()
                mark_stale(connection, list(ids))
            with one_apart() if count == 1 else local_workers(count) as workers:
                begun, before = time.monotonic(), time.process_time()
                done = analyse(store, workers=workers)
                took, own = time.monotonic() - begun, time.process_time() - before
            best[count] = min(took, best.get(count, took))
            click.echo(f"{count} processes: {done} series in {took:.2f} s, {own:.2f} s of CPU in this one")
    click.echo(f"two processes are {best[1] / best[2]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
