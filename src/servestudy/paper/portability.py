"""Theme: rankings and reversals between sources, under the model that the run's figures show."""

from collections import Counter

from servestudy.metrics import PRIMARY_METRIC
from servestudy.paper.found import Found, Row, Tables
from servestudy.paper.wording import listed, none_or, number, spaced, span
from servestudy.statistics.pair_difference import PAIR
from servestudy.workload import REGIONS

SOURCES, SCHEDULERS, METRICS = "portability/sources", "portability/schedulers", "portability/metrics"
TAU, RANKINGS, REVERSALS = "portability/tau_by_region", "portability/rankings", "portability/supported_reversals"
ROBUSTNESS = "portability/robustness"
READS = (SOURCES, SCHEDULERS, METRICS, TAU, RANKINGS, REVERSALS, ROBUSTNESS)


def add(found: Found, tables: Tables) -> None:
    """What was run, how well sources agree, which reversals are supported."""
    _panel(found, tables)
    _agreement(found, tables)
    _reversals(found, tables)
    _firsts(found, tables)


def _panel(found: Found, tables: Tables) -> None:
    sources, schedulers = tables.rows(SOURCES), tables.rows(SCHEDULERS)
    windows = sum(int(row["windows"]) for row in sources)
    each = sorted({int(row["windows"]) for row in sources})
    found.value("panel.model", sources[0]["model"], SOURCES)
    found.value("panel.sources", number(len(sources), 0), SOURCES)
    found.value("panel.windows", number(windows, 0), SOURCES)
    found.value("panel.windows_each", span([number(n, 0) for n in each]), SOURCES)
    found.value("panel.regions", number(len(REGIONS), 0), TAU)
    found.value("panel.conditions", number(_conditions(tables), 0), RANKINGS)
    primary = [row["scheduler"] for row in schedulers if row["primary"] == "yes"]
    found.value("panel.schedulers", number(len(schedulers), 0), SCHEDULERS)
    found.value("panel.primary", number(len(primary), 0), SCHEDULERS)
    metrics = tables.rows(METRICS)
    cells = next(row for row in metrics if row["metric"] == PRIMARY_METRIC)
    found.value("panel.cells", number(int(cells["values_defined"]) + int(cells["values_undefined"]), 0), METRICS)
    found.value("panel.metrics", number(len(metrics), 0), METRICS)
    found.table(
        SOURCES,
        ("source", "stands for", "windows", "rate", "burst.", "prompt", "output"),
        [
            [
                row["source"],
                row["published_counterpart"],
                row["windows"],
                number(float(row["mean_arrival_rate_rps"]), 1),
                number(float(row["mean_burstiness_b"])),
                number(float(row["mean_prompt_tokens"]), 0),
                number(float(row["mean_output_tokens"]), 0),
            ]
            for row in sources
        ],
    )
    found.table(
        SCHEDULERS,
        ("scheduler", "rule", "written after"),
        [[row["scheduler"], row["rule"], _origin(row)] for row in schedulers],
    )


def _origin(row: Row) -> str:
    named = [row[key] for key in ("engine", "version") if row[key] != "none stated"]
    return ", ".join(named) or row["fidelity"]


def _conditions(tables: Tables) -> int:
    return len({(row["source"], row["region"]) for row in tables.rows(RANKINGS)})


def _agreement(found: Found, tables: Tables) -> None:
    rows = {row["statistic"]: row for row in tables.rows(TAU)}
    shown = ("mean_tau_b", "min_tau_b", "max_tau_b")
    cells = [[spaced(name).removesuffix(" tau b"), *(_tau(rows[name][region]) for region in REGIONS)] for name in shown]
    found.table(TAU, ("over pairs of sources", *map(spaced, REGIONS)), cells)
    taus = {region: rows["mean_tau_b"][region] for region in REGIONS}
    means = {region: float(text) for region, text in taus.items() if text != "undefined"}
    if means:
        low, high = min(means, key=means.get), max(means, key=means.get)
        found.value("tau.lowest_mean", number(means[low]), TAU)
        found.value("tau.highest_mean", number(means[high]), TAU)
        found.value("tau.lowest_region", spaced(low), TAU)
        found.value("tau.highest_region", spaced(high), TAU)
    without = {
        row["variant"]: row["mean_tau_b"]
        for row in tables.rows(ROBUSTNESS)
        if row["family"] == "LEAVE_ONE_SOURCE_OUT" and row["metric"] == PRIMARY_METRIC
    }
    parts = [f"{_tau(tau)} without {source}" for source, tau in without.items()]
    found.value("tau.without_one_source", listed(parts), ROBUSTNESS)


def _tau(text: str) -> str:
    return text if text == "undefined" else number(float(text))


def _reversals(found: Found, tables: Tables) -> None:
    rows = [row for row in tables.rows(REVERSALS) if row["rule"] == "published"]
    pairs = Counter((row["scheduler_a"], row["scheduler_b"]) for row in rows)
    found.value("reversals.n", none_or(len(rows)), REVERSALS)
    found.fact("reversals.any", bool(rows))
    found.value("reversals.pairs", number(len(pairs), 0), REVERSALS)
    found.value("reversals.of_the_pair", none_or(pairs[PAIR]), REVERSALS)
    of_each = [f"{a} with {b} ({number(count, 0)})" for (a, b), count in pairs.most_common()]
    found.value("reversals.by_pair", listed(of_each), REVERSALS)
    after = sum(row["supported_after_fdr"] == "True" for row in rows)
    found.value("reversals.after_fdr", none_or(after), REVERSALS)
    found.value("reversals.schedulers", listed(sorted({name for pair in pairs for name in pair})), REVERSALS)


def _firsts(found: Found, tables: Tables) -> None:
    rows = [row for row in tables.rows(RANKINGS) if row["rank"] == "1"]
    shared = sum(count > 1 for count in Counter((row["source"], row["region"]) for row in rows).values())
    found.value("firsts.shared", none_or(shared), RANKINGS)
    found.fact("firsts.shared", shared > 0)
