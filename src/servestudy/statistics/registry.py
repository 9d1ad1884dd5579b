"""The analyses by name. Each reads window values and returns one table."""

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Analysis:
    """`module` has the table's schema as SCHEMA and the function `analyse(values) -> data frame`.

    If it `reads_window_index`, the function is `analyse(values, window index or None)`; if it `reads_outcomes`, it is
    `analyse(values, outcomes)`.
    """

    module: str
    text: str
    primary_only: bool = True  # the study's statistics leave out the two style approximations
    reads_window_index: bool = False  # when the windows were, and where in the trace
    reads_outcomes: bool = False  # whether schedulers served alike, which cells tell and a table of values does not
    reads_families: bool = False  # mechanism families of the registered schedulers


@dataclass(frozen=True)
class VariantAnalysis:
    """An analysis of the run's values beside those of its variants: `analyse(values, {number: values})`.

    If it `reads_outcomes`, these are outcomes; if it `reads_reversals`, the first is the table of that analysis.
    """

    module: str
    text: str
    variants: str  # which: a key of VARIANTS
    reads_outcomes: bool = False
    reads_reversals: bool = False


ANALYSES = {
    "ranking": Analysis(
        "servestudy.statistics.ranking",
        "mean of each metric by source, region and scheduler",
        primary_only=False,
    ),
    "agreement": Analysis(
        "servestudy.statistics.agreement",
        "tau-b, rho and top-k overlap of the rankings of each pair of sources",
    ),
    "agreement_intervals": Analysis(
        "servestudy.statistics.agreement_intervals",
        "tau-b and rho of each pair of sources with bootstrap intervals and Benjamini-Hochberg",
    ),
    "reversals": Analysis(
        "servestudy.statistics.reversals",
        "pairs of schedulers whose order differs between two sources, in five classes",
    ),
    "pair_difference": Analysis(
        "servestudy.statistics.pair_difference",
        "ANWG of slai_faithful less vllm_faithful, with intervals",
    ),
    "friedman": Analysis(
        "servestudy.statistics.friedman",
        "Friedman's test that the schedulers do not differ, by metric and region",
    ),
    "temporal": Analysis(
        "servestudy.statistics.temporal",
        "tau-b and rho of earlier and later windows of one source, with intervals",
        reads_window_index=True,
    ),
    "robustness": Analysis(
        "servestudy.statistics.robustness",
        "mean tau-b with sources, regions or mechanism families left out, or undefined values treated otherwise",
        reads_window_index=True,
        reads_families=True,
    ),
    "robustness_intervals": Analysis(
        "servestudy.statistics.robustness_intervals",
        "every comparison behind the robustness families, with intervals",
        reads_window_index=True,
        reads_families=True,
    ),
    "sample_complexity": Analysis(
        "servestudy.statistics.sample_complexity",
        "how often a draw of windows recovers the ranking, and the first number that does in 90 %",
    ),
    "window_budgets": Analysis(
        "servestudy.statistics.window_budgets",
        "tau-b with the pooled ranking: windows of one source against windows of all",
    ),
    "cross_metric_agreement": Analysis(
        "servestudy.statistics.cross_metric_agreement",
        "tau-b, rho and best scheduler by each pair of metrics, with intervals",
    ),
    "cross_metric_disagreements": Analysis(
        "servestudy.statistics.cross_metric_disagreements",
        "pairs of schedulers that two metrics order differently, in five classes",
    ),
    "discriminability": Analysis(
        "servestudy.statistics.discriminability",
        "share of windows where the schedulers differ at all, with Wilson intervals",
    ),
    "pilot_criteria": Analysis(
        "servestudy.statistics.pilot_criteria",
        "the five criteria of the study's pilot, with counts and verdicts",
        primary_only=False,  # the pilot has one of the style approximations
    ),
    "distinctness": Analysis(
        "servestudy.statistics.distinctness",
        "how many schedulers behave differently in each window; needs cells",
        reads_outcomes=True,
    ),
    "distinct_agreement": Analysis(
        "servestudy.statistics.distinct_agreement",
        "tau-b of each pair of sources with schedulers that behave alike counted once; needs cells",
        reads_outcomes=True,
    ),
    "explanation": Analysis(
        "servestudy.statistics.explanation",
        "which descriptors of a window go with a reversal, with and without the source as covariate",
        reads_window_index=True,
    ),
}

# Analyses of the windows themselves, before any scheduler: their `analyse` takes windows and strata.
WORKLOAD_ANALYSES = {
    "workload_features": Analysis(
        "servestudy.statistics.workload_features",
        "31 features of each window: arrivals, prompts, outputs, both, pressure",
    ),
    "separability": Analysis(
        "servestudy.statistics.separability",
        "how well three classifiers tell the sources apart, one stratum held out at a time",
    ),
    "separability_drivers": Analysis(
        "servestudy.statistics.separability_drivers",
        "what a random forest loses without a feature, and what it does with one alone",
    ),
    "feature_distances": Analysis(
        "servestudy.statistics.feature_distances",
        "each feature by pair of sources, and of strata of a source: d, KS, Wasserstein, means with intervals",
    ),
    "source_distances": Analysis(
        "servestudy.statistics.source_distances",
        "all features together by the same pairs: Euclid, Mahalanobis, MMD, largest d",
    ),
    "cross_against_within": Analysis(
        "servestudy.statistics.cross_against_within",
        "distances of windows of two sources against those of two strata of one source",
    ),
}

VARIANTS = {"slo": "SLO multiplier", "window_sizes": "requests per window"}  # what the number of a variant is

VARIANT_ANALYSES = {
    "slo_agreement": VariantAnalysis(
        "servestudy.statistics.slo_agreement",
        "tau-b, rho and best scheduler under another SLO multiplier against those at 20, with intervals",
        "slo",
    ),
    "slo_persistence": VariantAnalysis(
        "servestudy.statistics.slo_persistence",
        "what becomes of the supported reversals under another SLO multiplier",
        "slo",
        reads_reversals=True,
    ),
    "slo_deadline_users": VariantAnalysis(
        "servestudy.statistics.slo_deadline_users",
        "schedulers that serve requests at other times under another SLO multiplier; needs cells",
        "slo",
        reads_outcomes=True,
    ),
    "window_size": VariantAnalysis(
        "servestudy.statistics.window_size",
        "tau-b and rho of each pair of sources by requests per window, with intervals",
        "window_sizes",
    ),
    "window_size_spread": VariantAnalysis(
        "servestudy.statistics.window_size_spread",
        "distance of the schedulers and stability of their ranking by requests per window, with intervals",
        "window_sizes",
    ),
}


def run_analysis(name: str, cells: list, schedulers: list[str] | None, window_order, window_index, out) -> None:
    """Load window values, analyse them and write the table.

    Raises UserError as `load_values`, `read_window_index` and `read_outcomes` do. `schedulers` None: all that have
    values; `window_index` None: without times of windows.
    """
    from servestudy.statistics.outcomes import read_outcomes
    from servestudy.statistics.temporal_splits import read_window_index
    from servestudy.statistics.window_values import load_values
    from servestudy.tables import write_frame

    analysis = ANALYSES[name]
    module = import_module(analysis.module)
    values = load_values(cells, schedulers, window_order)
    if analysis.reads_window_index:
        table = module.analyse(values, read_window_index(window_index) if window_index else None)
    elif analysis.reads_outcomes:
        table = module.analyse(values, read_outcomes(cells))
    else:
        table = module.analyse(values)
    write_frame(table, module.SCHEMA, out)


def run_workload_analysis(name: str, windows: list, window_index, out) -> None:
    """Load window tables and their index, analyse them and write the table.

    Raises UserError if a file is missing or unreadable, or a window is not in the index.
    """
    from servestudy.statistics.workload_features import read_all, read_strata
    from servestudy.tables import write_frame

    module = import_module(WORKLOAD_ANALYSES[name].module)
    write_frame(module.analyse(read_all(windows), read_strata(window_index)), module.SCHEMA, out)


def run_variant_analysis(
    name: str, cells: list, variants: dict[int, list], schedulers: list[str] | None, reversals, out
) -> None:
    """Load the run's values and those of its variants, analyse them and write the table.

    Raises UserError as `load_variants` and `read_outcomes` do, or if the analysis needs `reversals` and there are none.
    """
    from servestudy.errors import UserError
    from servestudy.statistics.outcomes import read_outcomes
    from servestudy.statistics.reversals import SCHEMA as REVERSALS
    from servestudy.statistics.variants import load_variants
    from servestudy.tables import read_table, write_frame

    analysis = VARIANT_ANALYSES[name]
    module = import_module(analysis.module)
    reference, others = load_variants(cells, variants, schedulers, same_windows=analysis.variants == "slo")
    if analysis.reads_outcomes:
        reference, others = read_outcomes(cells), {number: read_outcomes(variants[number]) for number in others}
    elif analysis.reads_reversals:
        if reversals is None:
            raise UserError(f"{name} needs --reversals, the table that `servestudy statistics reversals` writes")
        reference = read_table(reversals, REVERSALS).to_pandas()
    write_frame(module.analyse(reference, others), module.SCHEMA, out)
