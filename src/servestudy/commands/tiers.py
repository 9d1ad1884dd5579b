"""Commands of the multi-tier study."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, positive_number, whole_number


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("tiers", tiers, "simulate a system of the multi-tier study over numbers of tiers, mixes and volumes")
    sub.add_argument("--system", required=True, help="name of a system; docs/TIERS.md lists them")
    sub.add_argument("--preset", default="burst", help="workload and rules: burst (default) or fixed")
    sub.add_argument("--tiers", nargs="+", type=positive_number, metavar="K", help="default: 1 to 10")
    sub.add_argument("--mixes", nargs="+", help="tier mixes (default: the preset's)")
    sub.add_argument("--requests", nargs="+", type=positive_number, metavar="N", help="volumes (default: the preset's)")
    sub.add_argument("--seeds", nargs="+", type=whole_number, metavar="S", help="default: 42, the study's")
    sub.add_argument("--set", nargs="+", default=[], metavar="RULE=VALUE", help="rules other than the published ones")
    sub.add_argument("--out", type=Path, required=True)

    sub = command(
        "tiers-speedups", tiers_speedups, "speed-ups of tables of `tiers` against INFaaS and against one tier"
    )
    sub.add_argument(
        "--metrics", nargs="+", type=Path, required=True, help="tables of `tiers`, one system or more each"
    )
    sub.add_argument("--out", type=Path, required=True)


def tiers(args: argparse.Namespace) -> None:
    from servestudy.tiers import study

    preset = study.preset_of(args.preset)
    study.write_cells(
        args.preset,
        args.system,
        args.tiers or study.TIERS_OF_THE_STUDY,
        args.mixes or preset.mixes,
        args.requests or preset.volumes,
        args.seeds or (study.SEED_OF_THE_STUDY,),
        args.set,
        args.out,
    )


def tiers_speedups(args: argparse.Namespace) -> None:
    from servestudy.tiers.speedups import write_speedups

    write_speedups(args.metrics, args.out)
