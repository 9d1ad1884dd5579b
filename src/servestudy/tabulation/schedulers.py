"""Table: the schedulers of the run, one row each."""

from collections.abc import Mapping

import pandas as pd

from servestudy.schedulers.registry import registered_schedulers


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows in the order of the registry, then schedulers that are not registered, by name."""
    found = set(tables["ranking"]["scheduler"])
    registered = registered_schedulers()
    rows = []
    for name in [*(name for name in registered if name in found), *sorted(found.difference(registered))]:
        entry = registered.get(name, {})
        stands_for = {key: value or "none stated" for key, value in entry.get("stands_for", {}).items()}
        rows.append(
            {
                "scheduler": name,
                "rule": stands_for.get("rule", "not registered"),
                "family": entry.get("family", "not registered"),
                "fidelity": entry.get("fidelity", "not registered") or "none: not of the study",
                "primary": "yes" if entry.get("primary") else "no",
                "paper": stands_for.get("paper", ""),
                "engine": stands_for.get("engine", ""),
                "version": stands_for.get("version", ""),
            }
        )
    return pd.DataFrame(rows)
