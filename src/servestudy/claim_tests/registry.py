"""The claims' tests by name."""

from collections.abc import Callable

from servestudy.claim_tests import agreement, constructed, hardware, metrics, reversals, slo, tiers, windows, workload
from servestudy.claim_tests.evidence import Finding

TESTS: dict[str, Callable[..., Finding]] = {
    function.__name__: function
    for module in (agreement, reversals, metrics, windows, slo, workload, constructed, tiers, hardware)
    for function in module.TESTS
}
"""Each takes an Evidence and the parameters of the claim. It raises UndefinedError or NotEvaluatedError."""
