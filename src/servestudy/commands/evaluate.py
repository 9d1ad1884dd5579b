"""Commands that look at one scheduler, or into one cell."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, chosen_model, load_factor, one_of, positive_number, settings_options
from servestudy.errors import UserError

MODELS = ["published", "serving"]
FORMATS = (".svg", ".pdf", ".png")


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("evaluate", evaluate, "run your own scheduler in the panel; write its portability report card")
    sub.add_argument("scheduler", metavar="FILE.py:CLASS", help="file and class of the scheduler")
    sub.add_argument("--model", choices=MODELS, help="engine model (default: both)")
    _run_options(sub)
    sub.add_argument("--sources", nargs="+", help="sources of the run (default: all)")
    sub.add_argument("--regions", nargs="+", help="load regions (default: all six)")
    sub.add_argument("--windows", type=positive_number, metavar="N", help="first windows of each source (default: all)")
    sub.add_argument("--fresh", action="store_true", help="simulate the panel too, instead of reading the run's cells")
    sub.add_argument("--processes", type=positive_number, metavar="N", help="default: as many as there are cores")
    sub.add_argument(
        "--check-windows",
        type=positive_number,
        default=2,
        metavar="N",
        help="windows of each source that are run again to check what the scheduler promises (default: %(default)s)",
    )
    sub.add_argument(
        "--limit-s",
        type=load_factor,
        default=60.0,
        help="seconds until a cell is given up (default: %(default)s)",
    )
    sub.add_argument("--out", type=Path, help="HTML file to write (default: report_card_<CLASS>.html)")
    sub.add_argument("--cells", type=Path, metavar="FOLDER", help="also write its cells, FOLDER/<model>.parquet")

    sub = command("timeline", timeline, "tell what each request of a cell does when; for chrome://tracing or Perfetto")
    sub.add_argument("--source", required=True, help="id of a source of the run")
    sub.add_argument("--window", required=True, help="id or number of a window")
    sub.add_argument("--region", required=True, help="load region, as KNEE")
    sub.add_argument("--scheduler", required=True, help="name of a scheduler, or FILE.py:CLASS")
    sub.add_argument("--model", choices=MODELS, default="published", help="engine model (default: %(default)s)")
    _run_options(sub)
    sub.add_argument("--out", type=Path, required=True, help="trace to write, .json")
    sub.add_argument("--svg", type=Path, help="picture to write as well: .svg, .pdf or .png")


def _run_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--run", default="embedded", help="name of the run, below results/ (default: %(default)s)")
    settings_options(sub)


def evaluate(args: argparse.Namespace) -> None:
    from servestudy.evaluate.evaluation import evaluate, panel_of_run
    from servestudy.evaluate.loading import scheduler_from_file
    from servestudy.evaluate.report import metric_definitions, sections
    from servestudy.evaluate.running import usable_cores
    from servestudy.evaluate.writing import terminal_text, write_html
    from servestudy.simulation import CELL_SCHEMA
    from servestudy.tables import write_table
    from servestudy.workload import REGIONS

    name = scheduler_from_file(args.scheduler).__name__
    regions = tuple(region for region in REGIONS if region in (args.regions or REGIONS))
    for region in args.regions or ():
        one_of("region", region, REGIONS)
    processes = args.processes or usable_cores()
    evaluations = []
    for model in [args.model] if args.model else MODELS:
        rules = args.set if model in ("published", args.model) else []
        chosen = chosen_model(argparse.Namespace(model=model, serving=args.serving, set=rules))
        panel = panel_of_run(chosen, Path("results") / args.run, args.sources, regions, args.windows, args.fresh)
        evaluations.append(evaluate(panel, name, args.scheduler, processes, args.check_windows, args.limit_s))
    title = f"{name}: portability report card"
    origin = f"{args.scheduler} on the windows of the run {args.run}"
    if args.set:
        origin += f", published model with {', '.join(args.set)}"
    found = list(sections(evaluations))
    out = args.out or Path(f"report_card_{name}.html")
    write_html(title, origin, found, metric_definitions(), out)
    if args.cells:
        for evaluation in evaluations:
            write_table(evaluation.cells, CELL_SCHEMA, args.cells / f"{evaluation.model}.parquet")
    print(terminal_text(title, origin, found))
    print(f"\n{out}: the same with all metrics")


def timeline(args: argparse.Namespace) -> None:
    from servestudy.evaluate.evaluation import panel_of_run
    from servestudy.evaluate.loading import scheduler_from_file
    from servestudy.simulation import cell_name, failures_named
    from servestudy.timeline import record
    from servestudy.timeline_trace import write_trace
    from servestudy.workload import REGIONS

    factor = one_of("region", args.region, REGIONS)
    if args.svg and args.svg.suffix not in FORMATS:
        raise UserError(f"--svg {args.svg}: the name must end in {', '.join(FORMATS)}")
    model = chosen_model(args)
    own = ":" in args.scheduler
    scheduler = scheduler_from_file(args.scheduler)() if own else model.scheduler(args.scheduler)
    name = type(scheduler).__name__ if own else args.scheduler
    panel = panel_of_run(model, Path("results") / args.run, [args.source], (args.region,), None, True)
    windows = {window.window_id: window for window in panel.windows[args.source]}
    numbers = {str(window.number): window.window_id for window in windows.values()}
    window = one_of("window", numbers.get(args.window, args.window), windows)
    scaled = model.scaled(model.workload(window), panel.lambda_ref[args.source][window.window_id] * factor)
    cell = cell_name(window, args.region, name)
    with failures_named(cell, name):
        events = record(model, scaled, scheduler, name)
    write_trace(events, f"{cell}, {model.name} model", args.out)
    if args.svg:
        from servestudy.timeline_picture import draw_timeline

        draw_timeline(events, cell, model.name, [args.svg])
