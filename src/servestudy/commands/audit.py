"""Commands of the audit of the published model: its switches, the cells of their arms, what the arms change."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, named_file, one_of, rules_option


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    command("audit-list", audit_list, "list the defects of the published model and the arms of their switches")

    sub = command(
        "audit-diagnose", audit_diagnose, "measure a defect that is no rule, in a complete run; print a table"
    )
    sub.add_argument("defect", metavar="ID", help="id of a defect: see audit-list")
    sub.add_argument("--run", default="embedded", help="name of the run, below results/ (default: %(default)s)")
    sub.add_argument("--scheduler", default="fifo", help="whom to watch, if one is watched (default: %(default)s)")
    sub.add_argument("--regions", nargs="+", default=["HIGH_PRESSURE"], help="load regions (default: HIGH_PRESSURE)")

    sub = command("audit-simulate", audit_simulate, "run a source's cells again with one rule changed")
    rules_option(sub)
    sub.add_argument("--switch", required=True, metavar="ID", help="id of a defect: see audit-list")
    sub.add_argument("--arms", nargs="+", required=True, metavar="ARM", help="arms of its switch")
    sub.add_argument("--windows", type=Path, required=True)
    sub.add_argument("--calibration", type=Path, required=True)
    sub.add_argument(
        "--cells",
        nargs="+",
        type=Path,
        default=[],
        help="the run's own cells of the source: needed for switches that change only cells with unfinished requests",
    )
    sub.add_argument("--schedulers", nargs="+", required=True, help="schedulers of the run")
    sub.add_argument("--regions", nargs="+", required=True, help="load regions")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("audit-analyse", audit_analyse, "set the arms of the audit beside the run itself")
    sub.add_argument("--cells", nargs="+", type=Path, required=True, help="the run's own cells of all sources")
    sub.add_argument("--ablations", nargs="*", type=Path, default=[], help="cells that audit-simulate wrote")
    sub.add_argument("--schedulers", nargs="+", required=True, help="schedulers of the run")
    sub.add_argument("--regions", nargs="+", required=True, help="load regions")
    sub.add_argument("--out", nargs="+", type=named_file, required=True, metavar="NAME=FILE", help="tables to write")


def audit_diagnose(args: argparse.Namespace) -> None:
    from servestudy.audit.diagnostics import diagnose, read_conditions
    from servestudy.workload import REGIONS

    for region in args.regions:
        one_of("region", region, REGIONS)
    conditions = read_conditions(Path("results") / args.run, args.scheduler, args.regions)
    print(diagnose(args.defect, conditions).to_csv(index=False, lineterminator="\n"), end="")


def audit_list(args: argparse.Namespace) -> None:
    from servestudy.audit.defects import DIAGNOSTICS, SWITCHES

    for switch_id, switch in SWITCHES.items():
        print(f"{switch_id}: {switch.statement}")
        for name, arm in switch.arms.items():
            print(f"    {name:26s}{arm.text}")
    for name, diagnostic in DIAGNOSTICS.items():
        print(f"{name}: {diagnostic.statement}\n    (measured, not switched)")


def audit_simulate(args: argparse.Namespace) -> None:
    from servestudy.audit.ablation import simulate_ablation
    from servestudy.audit.switches import parse_settings
    from servestudy.calibration import read_lambda_ref
    from servestudy.windows.frozen import read_windows
    from servestudy.workload import REGIONS

    for region in args.regions:
        one_of("region", region, REGIONS)
    simulate_ablation(
        args.switch,
        args.arms,
        read_windows(args.windows),
        read_lambda_ref(args.calibration),
        args.cells,
        args.schedulers,
        args.regions,
        parse_settings(args.set),
        args.out,
    )


def audit_analyse(args: argparse.Namespace) -> None:
    from servestudy.audit.analyses import SCHEMAS, analyse, write_analyses

    for name, _ in args.out:
        one_of("analysis", name, SCHEMAS)
    tables = analyse(args.cells, args.ablations, args.schedulers, args.regions)
    write_analyses(tables, dict(args.out))
