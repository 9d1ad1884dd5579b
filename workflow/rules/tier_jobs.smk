# What the rules of the tiers study need: the jobs of each design, and the tables that its figures read.

TIER_DESIGNS = {
    "tiers": CONFIG["tiers"]["default"],
    "tiers_full": CONFIG["tiers"]["full"],
}
TIER_MODELS = ["published", "serving"]
TIER_ANALYSES = ["metrics", "speedups", "gains"]
SERVING_BASELINES = [
    "infaas_vllm",
    "round_robin_vllm",
    "least_outstanding_vllm",
    "round_robin_orca",
    "round_robin_sarathi",
    "llumnix24",
]

SYSTEMS_OF_SCRIPTS = [
    "ours",
    "round_robin_vllm",
    "round_robin_orca",
    "round_robin_sarathi",
]
# Settings under which the study's result files are run again, to see what single percentiles of them rest on.
TIMES_OF_SCRIPTS = [
    "published",
    "decode_attention=0.95",
    "decode_attention=1.05",
    "prefill_attention=arithmetic",
    "decode_attention=0.95,prefill_attention=arithmetic",
    "decode_attention=1.05,prefill_attention=arithmetic",
]


def tier_options(cells, **other):
    """Options of `servestudy tiers` for one part of a design."""
    names = {"kv_blocks": "kv-blocks"}
    values = cells | other
    return " ".join(
        f"--{names.get(key, key)} {' '.join(map(str, values[key]))}" for key in values
    )


def tier_jobs(design):
    """Options of each job, by model and name."""
    parts = TIER_DESIGNS[design]
    of_study = ["infaas_vllm", "ours_one_tier"]
    ablated = {"tiers": parts["ablations"]["tiers"]}
    first_volume = {"requests": parts["published"]["requests"][:1]}
    one_mix = {"mixes": parts["paired"]["mixes"][:1]}
    jobs = {
        "published": {
            "references": tier_options(parts["published"], systems=of_study),
            "ours": tier_options(parts["published"], systems=["ours"]),
            "paired": tier_options(
                parts["paired"],
                systems=[*of_study, "ours"],
                set=["streams=separate"],
            ),
            "fixed": tier_options(
                {"tiers": range(1, 11)},
                preset=["fixed"],
                systems=SYSTEMS_OF_SCRIPTS,
                variants=TIMES_OF_SCRIPTS,
            ),
        },
        "serving": {
            "baselines": tier_options(
                parts["serving"], preset=["serving"], systems=SERVING_BASELINES
            ),
            "ours": tier_options(
                parts["serving"], preset=["serving"], systems=["ours", "ours_one_tier"]
            ),
            "fixed": tier_options(
                {"tiers": range(1, 11)},
                preset=["fixed_serving"],
                systems=SYSTEMS_OF_SCRIPTS,
            ),
        },
    }
    if parts["ablations"]["published"]:
        jobs["published"]["ablations"] = tier_options(
            parts["published"] | ablated | one_mix | first_volume,
            systems=["infaas_vllm", "ours"],
            variants=parts["ablations"]["published"],
        )
    if parts["ablations"]["serving"]:
        jobs["serving"]["ablations"] = tier_options(
            parts["serving"]
            | ablated
            | one_mix
            | {"loads": parts["ablations"]["loads"]},
            preset=["serving"],
            systems=["infaas_vllm", "ours", "ours_one_tier"],
            variants=parts["ablations"]["serving"],
        )
    for source in CONFIG["sources"]:
        jobs["serving"][f"trace_{source}"] = tier_options(
            parts["traces"],
            preset=["serving"],
            systems=[*SERVING_BASELINES, "ours", "ours_one_tier"],
        )
    return jobs


def tier_request_options(design):
    """Options of the run whose single latencies are shown: every system, four tiers, loads at and above capacity."""
    cells = TIER_DESIGNS[design]["serving"]
    return tier_options(
        cells
        | {"tiers": [4], "mixes": cells["mixes"][:1], "seeds": cells["seeds"][:3]},
        preset=["serving"],
        systems=[*SERVING_BASELINES, "ours_one_tier", "ours"],
        loads=["0.9", "burst"],
    )


TIER_JOBS = {design: tier_jobs(design) for design in TIER_DESIGNS}
TRACE_OF_JOB = {f"trace_{source}": source for source in CONFIG["sources"]}


def tier_windows(wildcards):
    """The frozen windows that a job replays, if it does."""
    source = TRACE_OF_JOB.get(wildcards.job)
    return [f"<results>/windows/{source}.parquet"] if source else []


def tier_tables(item, design):
    """The tables that a figure or a table of the study reads, by name: <model>_<analysis>."""
    found = {}
    for name in item.reads:
        if name == CLAIMS:
            found[name] = f"<results>/{design}/claims.csv"
            continue
        model, _, analysis = name.partition("_tier_")
        found[name] = f"<results>/{design}/{model}/{analysis}.parquet"
    return found


def tier_models(figure):
    """The models whose tables a figure reads, as the figure names them."""
    return " and ".join(dict.fromkeys(name.split("_tier_")[0] for name in figure.reads))


def tier_outputs(design):
    """All that a design makes."""
    return [
        *expand(
            "<results>/{design}/{model}/{analysis}.parquet",
            design=design,
            model=TIER_MODELS,
            analysis=TIER_ANALYSES,
        ),
        *expand(
            "<figures>/{design}/{figure}.{ext}",
            design=design,
            figure=TIER_FIGURES,
            ext=["svg", "pdf"],
        ),
        *expand("<tables>/{design}/{table}.csv", design=design, table=TIER_TABLES),
        f"<results>/{design}/claims.csv",
    ]
