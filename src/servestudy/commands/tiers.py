"""Commands of the multi-tier study."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, positive_number, whole_number


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command(
        "tiers", tiers, "simulate systems of the multi-tier study over numbers of tiers, mixes, loads and volumes"
    )
    sub.add_argument("--systems", nargs="+", required=True, metavar="SYSTEM", help="names; docs/TIERS.md lists them")
    sub.add_argument(
        "--preset", default="burst", help="workload and rules: burst (default), fixed, serving, fixed_serving"
    )
    sub.add_argument("--tiers", nargs="+", type=positive_number, metavar="K", help="default: 1 to 10")
    sub.add_argument("--mixes", nargs="+", help="tier mixes (default: the preset's)")
    sub.add_argument("--requests", nargs="+", type=positive_number, metavar="N", help="volumes (default: the preset's)")
    sub.add_argument("--seeds", nargs="+", type=whole_number, metavar="S", help="default: 42, the study's")
    sub.add_argument("--set", nargs="+", default=[], metavar="RULE=VALUE", help="rules other than the published ones")
    sub.add_argument(
        "--variants",
        nargs="+",
        default=["published"],
        metavar="RULE=VALUE,...",
        help="several sets of such rules, each on top of --set; published: none",
    )
    sub.add_argument("--loads", nargs="+", default=["burst"], metavar="L", help="burst, or shares of the capacity")
    sub.add_argument("--kv-blocks", nargs="+", type=positive_number, metavar="M", help="default: the preset's")
    sub.add_argument("--windows", type=Path, help="frozen windows of a source, whose requests are replayed")
    sub.add_argument("--each-request", action="store_true", help="write the latencies of each request instead")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("tiers-analyse", tiers_analyse, "speed-ups of cells of `tiers`, and their intervals over seeds")
    sub.add_argument("--cells", nargs="+", type=Path, required=True, help="tables of `tiers`")
    sub.add_argument("--metrics", type=Path, required=True, help="to write: all cells in one table")
    sub.add_argument("--speedups", type=Path, required=True, help="to write: each cell against its references")
    sub.add_argument("--gains", type=Path, required=True, help="to write: speed-ups over seeds, with intervals")

    sub = command("tiers-timeline", tiers_timeline, "what each request of one run on the serving engine does when")
    sub.add_argument("--system", default="ours", help="default: %(default)s")
    sub.add_argument("--tiers", type=positive_number, default=4, metavar="K", help="default: %(default)s")
    sub.add_argument("--mix", default="uniform", help="tier mix (default: %(default)s)")
    sub.add_argument("--requests", type=positive_number, default=150, metavar="N", help="default: %(default)s")
    sub.add_argument("--seed", type=whole_number, default=1, metavar="S", help="default: %(default)s")
    sub.add_argument("--load", default="0.9", metavar="L", help="burst, or a share of the capacity (default: 0.9)")
    sub.add_argument("--kv-blocks", type=positive_number, metavar="M", help="of a replica (default: the preset's)")
    sub.add_argument("--set", nargs="+", default=[], metavar="RULE=VALUE", help="rules other than the preset's")
    sub.add_argument("--trace", type=Path, help="to write as well: JSON for ui.perfetto.dev")
    sub.add_argument("--out", type=Path, required=True, help="table of spans; the figure timeline draws it")


def tiers(args: argparse.Namespace) -> None:
    from servestudy.tiers.study import SEED_OF_THE_STUDY, TIERS_OF_THE_STUDY, Design, write_cells

    variants = [args.set + ([] if text == "published" else text.split(",")) for text in args.variants]
    design = Design(
        preset=args.preset,
        tiers=args.tiers or TIERS_OF_THE_STUDY,
        mixes=args.mixes,
        requests=args.requests,
        seeds=args.seeds or (SEED_OF_THE_STUDY,),
        variants=variants,
        loads=args.loads,
        kv_blocks=args.kv_blocks,
        windows=args.windows,
    )
    write_cells(design, args.systems, args.out, args.each_request)


def tiers_analyse(args: argparse.Namespace) -> None:
    from servestudy.tiers.speedups import write_analysis

    write_analysis(args.cells, args.metrics, args.speedups, args.gains)


def tiers_timeline(args: argparse.Namespace) -> None:
    from servestudy.tiers.timeline import record, write_timeline, write_trace

    cell = (args.tiers, args.requests, args.seed, args.load, args.kv_blocks, args.mix, args.set)
    spans = record(args.system, *cell)
    write_timeline(args.system, spans, args.out)
    if args.trace:
        write_trace(spans, args.system, args.trace)
