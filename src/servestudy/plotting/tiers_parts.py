"""What the figures of the tiers study share: which rows they show, panels by model, axes of K."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from servestudy.errors import UserError

OURS = "ours"
MODELS = ("published", "serving")
PRESET = {"published": "burst", "serving": "serving"}
RULES = "published"
"""The variant without a switched rule."""
PAIRED = {"published": "streams=separate", "serving": RULES}
REAL_KV_BLOCKS = 7424
SYSTEM_LABELS = {
    "infaas_vllm": "INFaaS + vLLM",
    "least_outstanding_vllm": "least outstanding + vLLM",
    "round_robin_orca": "round robin + Orca",
    "round_robin_sarathi": "round robin + Sarathi",
    "llumnix24": "Llumnix (OSDI'24)",
    "ours_one_tier": "ours, one tier",
    "ours": "ours",
}
CURVE = {"capsize": 2, "markersize": 3, "linewidth": 0.9, "elinewidth": 0.8}


def gains(
    tables: dict[str, pd.DataFrame], model: str, reference: str, metric: str, variant: str = RULES
) -> pd.DataFrame:
    """Rows of ours of one comparison, by K; of the serving model with the real memory. They may be none."""
    rows = tables[f"{model}_tier_gains"]
    wanted = (rows["system"] == OURS) & (rows["preset"] == PRESET[model]) & (rows["variant"] == variant)
    wanted &= (rows["reference"] == reference) & (rows["metric"] == metric)
    if model == "serving":
        wanted &= rows["kv_blocks"] == REAL_KV_BLOCKS
    return rows[wanted].sort_values(["mix", "load", "requests", "tiers"])


def require(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """The rows; raises UserError if there are none."""
    if rows.empty:
        raise UserError(f"no rows of {what} in a table of this figure: nothing to draw")
    return rows


def draw_curve(axes: Axes, rows: pd.DataFrame, label: str, style: dict, shift: float = 0.0) -> None:
    """Gain by K with its interval, where there is one; shifted aside so that intervals do not hide each other."""
    error = [(rows["gain"] - rows["low"]).fillna(0), (rows["high"] - rows["gain"]).fillna(0)]
    axes.errorbar(rows["tiers"] + shift, rows["gain"], yerr=error, label=label, **style, **CURVE)


def k_axis(axes: Axes, numbers: pd.Series) -> None:
    axes.set_xticks(sorted(set(numbers)))
    axes.set_xlabel("number of tiers K")


def level(axes: Axes, value: float = 1.0) -> None:
    """Where nothing is gained or lost."""
    axes.axhline(value, color="0.5", linewidth=0.7, zorder=0)


def load_label(load: str) -> str:
    return load if load == "burst" else f"load {load}"


def plain_log_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5, as plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
