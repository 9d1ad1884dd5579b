"""The engine models by name, and figures and tables that read analyses of both."""

from collections.abc import Iterable, Mapping

MODELS = ("published", "serving")


def of_both_models(reads: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The columns of analyses, by <model>/<analysis>."""
    return {f"{model}/{analysis}": columns for analysis, columns in reads.items() for model in MODELS}


def models_read(reads: Iterable[str]) -> list[str]:
    """The engine models whose analyses are read; an analysis without a model's name is of the published one."""
    found = {name.partition("/")[0] if "/" in name else "published" for name in reads}
    return [model for model in MODELS if model in found]
