"""Theme: the claims of both studies, what this run says to them, and the counts of verdicts."""

from collections import Counter

from servestudy.claims import REPRODUCED, VERDICTS
from servestudy.paper.found import Found, Row, Tables
from servestudy.paper.wording import none_or, number, significant, spaced

STUDIES = {"portability": "portability/claims", "tiers": "tiers/claims_of_tiers"}
"""The tables of claims, by study."""
READS = tuple(STUDIES.values())
HEADLINE = {
    "portability.mean_tau": ("Mean tau-b between sources", "{mean}"),
    "portability.tau_range": ("Tau-b between sources, from least to largest", "{min} to {max}"),
    "portability.reversal_share": ("Supported reversals, of all comparisons", "{supported} of {n}"),
    "portability.reversals_one_pair": (
        "Reversals between slai_faithful and vllm_faithful; between others",
        "{of_the_pair}; {of_other_pairs}",
    ),
    "portability.cross_metric_median_tau": ("Median tau-b between metrics", "{median}"),
    "portability.sample_complexity_exact": (
        "Windows for the full order: Azure, Bailian, BurstGPT",
        "{azure}, {bailian}, {burstgpt}",
    ),
    "portability.hardware_reversal_not_reproduced": (
        "SLAI less vLLM on a real engine, ANWG: Azure, BurstGPT",
        "{azure}, {burstgpt}",
    ),
    "tiers.best_k": (
        "Best number of tiers: uniform, Gaussian, enterprise",
        "{uniform}, {gaussian_v2}, {enterprise_v2}",
    ),
    "tiers.e2e_p99_speedup": ("Speed-up of end-to-end P99", "{min} to {max}"),
    "tiers.prefill_mean_speedup_range": ("Speed-up of the mean time to first token", "{min} to {max}"),
    "tiers.cost_per_latency_10k": ("Cost per latency, per cent better", "{min} to {max}"),
    "tiers.high_priority_p99": ("Speed-up of P99 for the most important tenants", "{max}"),
}
"""The claims of page one: their short names, and how their values are written there. The appendix has all claims."""
SIDES = ("reported", "reproduced", "serving")
HEADINGS = ("claim", "reported", "published model", "serving model", "verdict", "direction")


def add(found: Found, tables: Tables) -> None:
    """Values `<claim>.<side>.<name>`, verdicts, counts over all claims, the table of page one and both full ones."""
    headline, verdicts, directions = [], Counter(), Counter()
    for study, item in STUDIES.items():
        rows = tables.rows(item)
        for row in rows:
            _values(found, item, row)
            verdicts[study, row["verdict"]] += 1
            for side in ("direction_holds", "serving_direction_holds"):
                directions[study, side, row[side]] += 1
            if row["claim"] in HEADLINE:
                short, form = HEADLINE[row["claim"]]
                headline.append([short, *_cells(row, form)])
        found.value(f"claims.{study}.n", number(len(rows), 0), item)
        found.table(item, HEADINGS, [[f"{row['claim']}. {row['statement']}", *_cells(row)] for row in rows])
    found.tables["headline"] = {"source": "portability/claims", "columns": list(HEADINGS), "rows": headline}
    _counts(found, verdicts, directions)


def _counts(found: Found, verdicts: Counter, directions: Counter) -> None:
    rows = []
    for verdict in VERDICTS:
        counts = [verdicts[study, verdict] for study in STUDIES]
        rows.append([verdict, *(number(count, 0) for count in counts), number(sum(counts), 0)])
        for study, count in zip(STUDIES, counts, strict=True):
            found.value(f"claims.{study}.{verdict}", none_or(count), STUDIES[study])
            found.fact(f"claims.{study}.{verdict}", count > 0)
    total = sum(verdicts.values())
    rows.append(["all", *(found.values[f"claims.{study}.n"]["text"] for study in STUDIES), number(total, 0)])
    found.tables["verdicts"] = {
        "source": "portability/claims",
        "columns": ["verdict", "portability", "tiers", "both"],
        "rows": rows,
    }
    for study, item in STUDIES.items():
        for side, model in (("direction_holds", "published"), ("serving_direction_holds", "serving")):
            decided = directions[study, side, "yes"] + directions[study, side, "no"]
            found.value(f"claims.{study}.directions.{model}", number(directions[study, side, "yes"], 0), item)
            found.value(f"claims.{study}.directions.{model}.of", number(decided, 0), item)


def _values(found: Found, item: str, row: Row) -> None:
    for side in SIDES:
        for name, text in parsed(row[side]).items():
            found.value(f"{row['claim']}.{side}.{name}", text, item)
    found.value(f"{row['claim']}.verdict", row["verdict"], item)
    found.fact(f"{row['claim']}.reproduced", row["verdict"] == REPRODUCED)
    found.fact(f"{row['claim']}.direction", row["direction_holds"] == "yes")
    found.fact(f"{row['claim']}.serving_direction", row["serving_direction_holds"] == "yes")


def parsed(text: str) -> dict[str, str]:
    """The values of a claim by name, with three significant digits: `mean = 0.7329; n = 990`. Empty where it says in
    a word that there are none."""
    pairs = [part.partition(" = ") for part in text.split("; ")]
    return {name: _rounded(value) for name, equals, value in pairs if equals}


def _rounded(text: str) -> str:
    try:
        return significant(float(text))
    except ValueError:
        return " ".join(_rounded(word) if word[-1:].isdigit() and "." in word else word for word in text.split())


def _cells(row: Row, form: str = "") -> list[str]:
    """What the study reports, what both models give, the verdict, whether the direction holds in each model.

    Values are written as `form` says, if all are there; else one after the other.
    """
    cells = []
    for side in SIDES:
        values = parsed(row[side])
        try:
            text = form.format_map(values)
        except KeyError:
            text = ""
        cells.append(text or "; ".join(f"{spaced(name)} {value}" for name, value in values.items()) or row[side])
    return [*cells, row["verdict"], f"{row['direction_holds']} / {row['serving_direction_holds']}"]
