"""Table: the trace sources of the run, one row each."""

from collections.abc import Mapping

import pandas as pd

from servestudy.schedulers.registry import CHECKOUT
from servestudy.traces.registry import load_sources

PUBLISHED = {"burstgpt": "burstgpt", "azure": "azure_llm_2024", "bailian": "bailian_qwen"}
"""The study's sources by the first word of their ids."""


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows in the order of the window index; token counts and rates are means over the windows."""
    registry = load_sources(CHECKOUT / "config/sources.tsv")
    rows = []
    for source, windows in tables["window_index"].groupby("source", sort=False):
        entry = registry[source]
        rows.append(
            {
                "source": source,
                "title": entry.title,
                "version": entry.version,
                "synthetic": "yes" if entry.synthetic else "no",
                "published_counterpart": _counterpart(source, entry.synthetic),
                "valid_rows": int(windows["valid_rows"].iloc[0]),
                "windows": len(windows),
                "requests": int(windows["request_count"].sum()),
                "mean_duration_s": windows["duration_s"].mean(),
                "mean_arrival_rate_rps": windows["arrival_rate_rps"].mean(),
                "mean_burstiness_b": windows["burstiness_b"].mean(),
                "mean_prompt_tokens": windows["prompt_tokens_mean"].mean(),
                "mean_output_tokens": windows["output_tokens_mean"].mean(),
                "licence": entry.licence,
                "citation": entry.citation,
            }
        )
    return pd.DataFrame(rows)


def _counterpart(source: str, synthetic: bool) -> str:
    published = PUBLISHED.get(source.split("_")[0])
    if source == published:
        return "itself"
    if synthetic and published:
        return f"{published} (made to resemble it)"
    return "none"
