"""Table: hypotheses about artefacts of the tiers study, the numbers of this run that decide each, and the answer.

An answer is `supported`, `not supported` or `not decided`, by the rule of its function; ratios are compared as they
are where the study has a single run a cell, and by their intervals where there are paired seeds.
"""

from collections.abc import Callable, Mapping

import pandas as pd

K = 4  # the number of tiers that the study recommends
REAL_KV_BLOCKS = 7424
ANSWERS = {True: "supported", False: "not supported", None: "not decided"}


class Runs:
    """The tables, with one look-up for speed-ups and one for cells."""

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self.tables = tables

    def gain(
        self,
        metric: str,
        model: str = "published",
        variant: str = "published",
        system: str = "ours",
        reference: str = "baseline",
        tiers: int = K,
        load: str = "burst",
        mix: str = "uniform",
        preset: str | None = None,
        requests: int | None = None,
    ) -> pd.Series | None:
        """Gain with `low` and `high`; of the smallest volume if none is named. None: not run."""
        rows = self.tables[f"{model}_tier_gains"]
        preset = preset or ("burst" if model == "published" else "serving")
        rows = rows[(rows["preset"] == preset) & (rows["variant"] == variant) & (rows["system"] == system)]
        rows = rows[(rows["reference"] == reference) & (rows["metric"] == metric) & (rows["tiers"] == tiers)]
        rows = rows[(rows["load"] == load) & (rows["mix"] == mix)]
        if model == "serving" and "total_blocks" not in variant:
            rows = rows[rows["kv_blocks"] == REAL_KV_BLOCKS]
        if requests:
            rows = rows[rows["requests"] == requests]
        return None if rows.empty else rows.sort_values("requests").iloc[0]

    def cells(self, model: str, system: str, tier: int = -1, **wanted) -> pd.DataFrame:
        rows = self.tables[f"{model}_tier_metrics"]
        rows = rows[(rows["system"] == system) & (rows["tier"] == tier)]
        for name, value in ({"variant": "published"} | wanted).items():
            rows = rows[rows[name] == value]
        return rows


def _text(**gains: pd.Series | float | None) -> str:
    def one(value: pd.Series | float | None) -> str:
        if value is None:
            return "not run"
        if isinstance(value, float):
            return f"{value:.3g}"
        has_interval = pd.notna(value["low"])
        return f"{value['gain']:.3f}" + (f" [{value['low']:.3f}, {value['high']:.3f}]" if has_interval else "")

    return "; ".join(f"{name.replace('_', ' ')} {one(value)}" for name, value in gains.items())


Answer = tuple[str, bool | None]


def _h1(runs: Runs) -> Answer:
    plain = runs.gain("e2e_p99")
    both = runs.gain("e2e_p99", variant="batch_cap=true,decodes_hold_kv=true")
    memory = runs.gain("e2e_p99", variant="total_blocks=7424")
    text = _text(as_published=plain, KV_held_and_cap_honoured=both, real_memory_for_both=memory)
    if plain is None or both is None:
        return text, None
    return text, bool(both["gain"] ** 2 < plain["gain"])


def _h2(runs: Runs) -> Answer:
    ours, one = runs.gain("e2e_p99"), runs.gain("e2e_p99", system="ours_one_tier")
    text = _text(four_tiers_over_the_baseline=ours, one_tier_over_the_baseline=one)
    return text, None if ours is None or one is None else bool(one["gain"] >= ours["gain"])


def _switch(variant: str, metric: str = "e2e_p99") -> Callable[[Runs], Answer]:
    """Supported if less than a tenth of the speed-up, on a log scale, goes with the switch."""

    def test(runs: Runs) -> Answer:
        plain, switched = runs.gain(metric), runs.gain(metric, variant=variant)
        text = _text(as_published=plain, **{variant: switched})
        if plain is None or switched is None:
            return text, None
        return text, bool(switched["gain"] >= plain["gain"] ** 0.9)

    return test


def _h5(runs: Runs) -> Answer:
    ours, theirs = (
        runs.cells("serving", name, load="burst", kv_blocks=REAL_KV_BLOCKS, tiers=K)["gpu_busy_s"].mean()
        for name in ("ours", "infaas_vllm")
    )
    text = (
        f"improvement = 1 - 1/S in every row by its definition; busy GPU seconds ours {ours:.4g}, baseline {theirs:.4g}"
    )
    return text, True


def _h6(runs: Runs) -> Answer:
    cells = runs.cells("published", "infaas_vllm", preset="burst", mix="uniform", tiers=K).sort_values("requests")
    if len(cells) < 2:
        return "two volumes were not run", None
    text = "; ".join(f"{row.requests:,} requests: {row.completed:,} completed, P99 {row.e2e_p99_s:.2f} s"
                     for row in cells.itertuples())  # fmt: skip
    limit = runs.gain("e2e_p99", variant="time_limit_s=inf")
    same = cells["completed"].nunique() == 1 and cells["e2e_p99_s"].nunique() == 1
    return f"baseline, {text}; " + _text(speed_up=runs.gain("e2e_p99"), without_limit=limit), bool(same)


def _h7(runs: Runs) -> Answer:
    paired = runs.gain("e2e_p99", variant="streams=separate", reference="one_tier")
    serving = runs.gain("e2e_p99", "serving", reference="one_tier")
    text = _text(K_4_over_one_tier_published=paired, serving=serving)
    if paired is None or pd.isna(paired["low"]):
        return text, None
    return text, bool(paired["low"] <= 1)


def _h8(runs: Runs) -> Answer:
    ttft, tbt, published = (runs.gain(name) for name in ("ttft_mean", "tbt_mean", "tbt_published_mean"))
    text = _text(TTFT=ttft, TBT=tbt, TBT_as_published=published)
    text += "; " + _text(decodes_first_TTFT=runs.gain("ttft_mean", variant="queue_order=decodes_first"))
    return text, None if ttft is None else bool(ttft["gain"] > 1 and tbt["gain"] < 1)


def _h9(runs: Runs) -> Answer:
    counts = {
        name: runs.cells("published", name, preset="fixed")["e2e_p99_s"].nunique()
        for name in ("round_robin_vllm", "round_robin_orca", "round_robin_sarathi")
    }
    return "different E2E P99 over K: " + ", ".join(f"{n} {c}" for n, c in counts.items()), set(counts.values()) == {1}


def _h10(runs: Runs) -> Answer:
    values = {}
    for tier, name in ((-1, "all"), (0, "tier 0"), (K - 1, f"tier {K - 1}")):
        ours, theirs = (
            runs.cells("published", system, tier, preset="burst", mix="uniform", tiers=K)["e2e_p99_s"].min()
            for system in ("ours", "infaas_vllm")
        )
        values[name] = theirs / ours
    text = "E2E P99 speed-up: " + ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    return text, bool(values[f"tier {K - 1}"] < values["all"] < values["tier 0"])


def _h11(runs: Runs) -> Answer:
    plain, zero, fifo = (
        runs.gain("slo_attainment", "serving", variant=variant, reference="one_tier")
        for variant in ("published", "headroom=zero", "queue_order=fifo")
    )
    text = "SLO attainment less that of one tier: " + _text(plain=plain, headroom_off=zero, queue_order_off=fifo)
    if any(row is None for row in (plain, zero, fifo)):
        return text, None
    return text, bool(zero["gain"] >= plain["low"] and fifo["high"] < plain["gain"])


def _h12(runs: Runs) -> Answer:
    costed, free, off = (
        runs.gain("e2e_p99", "serving", variant=variant) for variant in ("published", "migration=free", "migration=off")
    )
    text = _text(moves_that_cost=costed, free_moves=free, no_moves=off)
    if costed is None or free is None:
        return text, None
    return text, bool(free["low"] > costed["high"])


def _h14(runs: Runs) -> Answer:
    paired, unpaired = runs.gain("e2e_p99", reference="one_tier"), runs.gain("e2e_p99", reference="k1")
    text = _text(same_requests=paired, K_1_of_the_shared_stream=unpaired)
    return text, None if paired is None or unpaired is None else bool(paired["gain"] != unpaired["gain"])


def _h15(runs: Runs) -> Answer:
    table = runs.tables["serving_tier_gains"]
    traces = sorted(set(table["preset"]) - {"serving", "fixed_serving"})
    gains = {name: runs.gain("e2e_p99", "serving", reference="one_tier", load="0.9", preset=name) for name in traces}
    return "K = 4 over one tier, load 0.9: " + _text(**gains), None


def _h16(runs: Runs) -> Answer:
    waits = {}
    for variant in ("published", "aging_s=0.25"):
        cells = (
            runs.cells("serving", "ours", tier, variant=variant, load="burst", tiers=K, kv_blocks=REAL_KV_BLOCKS)
            for tier in (0, K - 1)
        )
        waits[variant] = [rows["longest_wait_s"].mean() for rows in cells]
    text = "longest wait, s, tier 0 and last: " + ", ".join(
        f"{name} {first:.1f} {last:.1f}" for name, (first, last) in waits.items()
    )
    first, last = waits["published"]
    return text, None if pd.isna(last) else bool(last > 2 * first)


def _h17(runs: Runs) -> Answer:
    mixes = sorted(set(runs.tables["published_tier_gains"].query("preset == 'burst'")["mix"]))
    gains = {mix: runs.gain("e2e_p99", reference="one_tier", mix=mix) for mix in mixes}
    signs = {row["gain"] > 1 for row in gains.values() if row is not None}
    return "K = 4 over one tier: " + _text(**gains), None if len(gains) < 2 else len(signs) > 1


def _h19(runs: Runs) -> Answer:
    others = {
        name: runs.gain("e2e_p99", "serving", system=name)
        for name in ("least_outstanding_vllm", "round_robin_sarathi", "llumnix24", "ours")
    }
    text = "serving engine, burst: " + _text(**others)
    ours = others["ours"]
    if ours is None:
        return text, None
    return text, any(row is not None and row["gain"] >= ours["gain"] for n, row in others.items() if n != "ours")


def _h20(runs: Runs) -> Answer:
    drained = runs.cells("published", "ours", preset="burst", tiers=K)["drained_replica_s"].max()
    cells = runs.cells("serving", "ours", variant="autoscaler=published", tiers=K)
    low_load = cells[cells["load"] != "burst"]["drained_replica_s"].mean()
    text = (
        f"drained replica-seconds: burst {drained:.3g}; serving engine below saturation {low_load:.3g}; E2E P99 there "
    )
    gains = {
        name: runs.gain("e2e_p99", "serving", variant=variant, load="0.9")
        for name, variant in (("off", "published"), ("on", "autoscaler=published"))
    }
    if gains["on"] is None or not low_load > 0:
        return text + _text(**gains), None
    return text + _text(**gains), bool(gains["on"]["gain"] < gains["off"]["gain"])


def _h21(runs: Runs) -> Answer:
    loads = ("0.5", "0.7", "0.9", "1.0", "1.1", "burst")
    gains = {load: runs.gain("e2e_p99", "serving", load=load) for load in loads}
    gains = {load: row for load, row in gains.items() if row is not None}
    text = "speed-up by load: " + _text(**gains)
    if not {"0.7", "1.1"} <= set(gains):
        return text, None
    return text, bool(gains["1.1"]["gain"] >= gains["0.7"]["gain"])


NOT_RUN = "no run decides this"
HYPOTHESES: dict[str, tuple[str, Callable[[Runs], Answer]]] = {
    "H1": ("most of the speed-up comes from the contender's engine: KV not held, cap not read", _h1),
    "H2": ("without tiers the contender is as fast over the baseline", _h2),
    "H3": ("without migration nine tenths of the TTFT gain stay", _switch("migration=off", "ttft_mean")),
    "H4": ("with round robin nine tenths of the TTFT gain stay", _switch("dispatch=round_robin", "ttft_mean")),
    "H5": ("cost per latency is the P99 speed-up again", _h5),
    "H6": (
        "the fall from 10,000 to 15,000 requests comes from the 60 s limit: the baseline's values do not change",
        _h6,
    ),
    "H7": ("K = 4 cannot be told from one tier", _h7),
    "H8": ("first tokens come sooner because further tokens come later", _h8),
    "H9": ("for the other schedulers K is a label: their rows are the same", _h9),
    "H10": ("the lowest tier, which the study's priority metric shows, gains less than all and tier 0 more", _h10),
    "H11": ("separation comes from the order of the queue; headroom adds nothing", _h11),
    "H12": ("results depend on moves being free", _h12),
    "H13": (
        "the clamp of attention does not matter: nine tenths stay without it",
        _switch("attention_clamp_seqs=none"),
    ),
    "H14": ("K = 1 of the shared random stream is another control than the same requests as one tier", _h14),
    "H15": ("other lengths may give other effects of tiers", _h15),
    "H16": ("strict tiers make the last tier wait: more than twice as long as the first", _h16),
    "H17": ("the sign of the effect depends on the mix", _h17),
    "H18": (
        "the study's two time models make its files incomparable",
        lambda runs: (f"{NOT_RUN}: one model here", None),
    ),
    "H19": ("another reading of the baseline is as strong as ours", _h19),
    "H20": ("the autoscaler drains replicas at low load and costs latency", _h20),
    "H21": ("the gain does not fade near saturation on steady load", _h21),
    "H22": ("Llumnix' 2.2 is for real data; for generated traces it claims 7.7", lambda runs: (NOT_RUN, None)),
}


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a hypothesis."""
    runs = Runs(tables)
    rows = []
    for name, (statement, test) in HYPOTHESES.items():
        evidence, holds = test(runs)
        rows.append({"hypothesis": name, "statement": statement, "evidence": evidence, "answer": ANSWERS[holds]})
    return pd.DataFrame(rows)
