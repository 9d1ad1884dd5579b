"""Figure: how long the engine's steps take, and the fit that the simulator uses."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.errors import UserError
from servestudy.plotting.style import Context, new_figure, series


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Step time against tokens: median and 5th to 95th percentile of groups of steps, and mean fitted time."""
    steps = tables["step_times"]
    if steps.empty:
        raise UserError("no step is measured: nothing to draw")
    figure = new_figure("Step time of the engine", context, 3.0)
    axes = figure.subplots()
    measured, fitted = series(0), series(1)
    axes.vlines(
        steps["tokens_mean"], steps["low_s"] * 1000, steps["high_s"] * 1000, color=measured["color"], linewidth=1
    )
    axes.plot(
        steps["tokens_mean"],
        steps["median_s"] * 1000,
        **measured | {"linestyle": "none"},
        markersize=3,
        label="measured: median, 5 to 95 %",
    )
    first = steps.iloc[0]
    text = f"fit: {first['base_s'] * 1e3:.3g} ms + {first['token_s'] * 1e6:.3g} µs a token"
    text += f"\n+ {first['decode_s'] * 1e6:.3g} µs a decode + {first['kv_token_s'] * 1e9:.3g} ns a KV token"
    axes.plot(steps["tokens_mean"], steps["fitted_s"] * 1000, color=fitted["color"], linewidth=1, label=text)
    axes.set(xscale="log", yscale="log", xlabel="tokens of the step", ylabel="step time, ms")
    axes.legend(frameon=False, fontsize=5.5, loc="upper left")
    return figure
