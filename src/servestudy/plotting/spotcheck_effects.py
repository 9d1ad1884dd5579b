"""Figure: what SLAI does to ANWG against first come, first served: engine, simulators, published study."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.errors import UserError
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series

ENGINE, SIMULATED, REPORTED = 0, 2, 1
LABELS = ("real engine", "reported by the study", "simulated, highest load")


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """One panel a source; a row a measurement or simulation, with its interval."""
    effects = tables["effects"]
    effects = effects[effects["metric"] == "anwg"]
    if effects.empty:
        raise UserError("no effect on ANWG is measured: nothing to draw")
    sources = sorted(effects["source"].unique())
    most = max(len(_rows(effects, tables["agreement"], source)) for source in sources)
    figure = new_figure("ANWG of SLAI less ANWG of first come, first served", context, 1.3 + 0.19 * most, PAGE_WIDTH_IN)
    panels = figure.subplots(1, len(sources), sharey=True, squeeze=False)[0]
    labelled: set[int] = set()
    for axes, source in zip(panels, sources, strict=True):
        rows = _rows(effects, tables["agreement"], source)
        for place, (_, n_windows, kind, value, low, high) in enumerate(rows):
            style = series(kind) | {"linestyle": "none"}
            axes.hlines(place, low, high, color=style["color"], linewidth=1)
            label = LABELS[kind] if kind not in labelled else None
            labelled.add(kind)
            axes.plot(value, place, **style, markersize=3.5, label=label)
            if pd.isna(value):
                middle = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "center"}
                axes.text(0.5, place, "undefined", fontsize=5.5, color=style["color"], **middle)
            if n_windows is not None:
                beside = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "right"}
                axes.text(0.99, place, f"n={n_windows}", fontsize=5, color="0.4", **beside)
        axes.axvline(0, color="0.7", linewidth=0.6, zorder=0)
        axes.set(title=source, xlabel="< FCFS better | SLAI better >")
        axes.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=6)
    panels[0].set_ylim(most - 0.5, -0.5)
    note = "bar: 95 % interval over resampled windows; n windows, all or only those with a bracketed sustained rate"
    figure.legend(loc="outside lower center", ncols=3, frameon=False, title=note, title_fontsize=6)
    return figure


def _rows(effects: pd.DataFrame, agreement: pd.DataFrame, source: str) -> list[tuple]:
    """(label, windows or None, kind, value, low, high), the same labels for every source; what one lacks is NaN."""
    nan = float("nan")
    of_source = effects[effects["source"] == source].set_index(["variant", "load", "windows"])
    rows = []
    for variant, load in sorted(set(zip(effects["variant"], effects["load"], strict=True)), key=_place):
        for windows in ("bracketed", "all") if variant == "main" else ("all",):
            label = f"{variant.replace('_', ' ')}, load {load:g}, {windows}"
            n_windows, values = 0, [nan] * 3
            if (variant, load, windows) in of_source.index:
                row = of_source.loc[(variant, load, windows)]
                n_windows, values = int(row["n_windows"]), [row["effect"], row["low"], row["high"]]
            rows.append((label, n_windows, ENGINE, *values))
    of_source = agreement[(agreement["source"] == source) & (agreement["windows"] == "all")]
    simulated = of_source.set_index("simulator")
    for simulator in ("published", "serving"):
        row = simulated.loc[simulator] if simulator in simulated.index else None
        values = [nan] * 3 if row is None else [row[f"simulated_{name}"] for name in ("effect", "low", "high")]
        rows.append((f"{simulator} model", None, SIMULATED, *values))
    study = simulated.loc["study"] if "study" in simulated.index else None
    if study is None:
        rows += [(text, None, REPORTED, nan, nan, nan) for text in ("study, simulator", "study, engine")]
    else:
        rows.append(("study, simulator", None, REPORTED, study["simulated_effect"], nan, nan))
        rows.append(("study, engine", None, REPORTED, *(study[f"engine_{name}"] for name in ("effect", "low", "high"))))
    return rows


def _place(condition: tuple[str, float]) -> tuple[int, float]:
    variant, load = condition
    return ("main", "tight_kv", "as_published").index(variant), load
