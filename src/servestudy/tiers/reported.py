"""Figures of the published study's result files: 800 requests of 512 + 128 tokens at 10/s on 4 replicas, seed 42.

Seconds. End-to-end percentiles are of the file of 1 December 2025, the other rows of that of 28 November, by number of
tiers. The schedulers that do not see tiers have the same digits for every K.
"""

E2E = ("e2e_p50_s", "e2e_p90_s", "e2e_p99_s", "e2e_mean_s")
TOKENS = ("ttft_p99_s", "ttft_mean_s", "tbt_published_p99_s", "tbt_published_mean_s")

_BLIND = {
    "round_robin_vllm": (1.453297, 1.531906, 1.628031, 1.456367),
    "round_robin_orca": (1.429181, 1.500856, 1.581869, 1.432202),
    "round_robin_sarathi": (1.43445, 1.502808, 1.583207, 1.437004),
}
_OURS_E2E = (
    (1.431371, 1.498966, 1.586942, 1.431061),
    (1.430728, 1.501653, 1.585736, 1.43103),
    (1.430332, 1.504865, 1.59546, 1.430635),
    (1.429121, 1.502247, 1.595349, 1.430606),
    (1.427411, 1.505034, 1.600491, 1.431779),
    (1.429069, 1.504111, 1.600105, 1.431234),
    (1.430678, 1.503747, 1.610491, 1.431866),
    (1.428505, 1.508672, 1.602478, 1.431445),
    (1.43107, 1.506078, 1.576878, 1.431363),
    (1.428135, 1.506546, 1.592988, 1.431613),
)
_OURS_TOKENS = (
    (0.0809351, 0.0461465, 0.0120211, 0.0108196),
    (0.0839347, 0.0470242, 0.0120421, 0.0108125),
    (0.0874422, 0.04817, 0.012088, 0.0108005),
    (0.1008313, 0.0494413, 0.0121226, 0.0107903),
    (0.0906745, 0.0484625, 0.0121571, 0.0108072),
    (0.1029139, 0.0488875, 0.0121593, 0.0107996),
    (0.1009548, 0.0489125, 0.0121928, 0.0108043),
    (0.0996956, 0.0490551, 0.0121471, 0.0107999),
    (0.1001885, 0.0488201, 0.0119593, 0.0108011),
    (0.1080397, 0.0491615, 0.0120747, 0.0108004),
)

_AGAIN = ("e2e_p99_s", "e2e_mean_s", *TOKENS)
_VLLM_AGAIN = (1.6432912, 1.4631881, 0.0470688, 0.041734, 0.012515, 0.0111051)
_OURS_AGAIN = (
    (1.5952749, 1.4368738, 0.0819508, 0.0462653, 0.0120872, 0.0108641),
    (1.6014003, 1.4371553, 0.0839347, 0.0472121, 0.0121896, 0.0108589),
    (1.600713, 1.4367474, 0.0974714, 0.048583, 0.0121357, 0.010845),
    (1.6057151, 1.4364123, 0.106425, 0.0495283, 0.0121825, 0.010835),
    (1.6067331, 1.4379321, 0.0930406, 0.0488249, 0.012174, 0.0108524),
    (1.6138372, 1.4373037, 0.1024468, 0.0488929, 0.0122413, 0.010847),
    (1.6183863, 1.4377343, 0.0997179, 0.0492556, 0.0122065, 0.0108475),
    (1.609067, 1.4376907, 0.1131702, 0.0495985, 0.0121739, 0.0108445),
    (1.5907629, 1.4374798, 0.1068168, 0.0489922, 0.0120677, 0.0108476),
    (1.598212, 1.4377955, 0.1088943, 0.0494472, 0.012135, 0.0108465),
)


def reported_values() -> dict[tuple[str, int, str], float]:
    """(system, K, metric) -> seconds; the blind schedulers at K = 1."""
    values = {
        (system, 1, metric): value for system, row in _BLIND.items() for metric, value in zip(E2E, row, strict=True)
    }
    tokens = (0.0470394, 0.0416907, 0.0123758, 0.0110522)
    values |= {("round_robin_vllm", 1, metric): value for metric, value in zip(TOKENS, tokens, strict=True)}
    for names, rows in ((E2E, _OURS_E2E), (TOKENS, _OURS_TOKENS)):
        for tiers, row in enumerate(rows, start=1):
            values |= {("ours", tiers, metric): value for metric, value in zip(names, row, strict=True)}
    return values


def repeated_values() -> dict[tuple[str, int, str], float]:
    """The same rows, where it has them, in another file of the study of 28 November with the same workload."""
    values = {("round_robin_vllm", 1, metric): value for metric, value in zip(_AGAIN, _VLLM_AGAIN, strict=True)}
    for tiers, row in enumerate(_OURS_AGAIN, start=1):
        values |= {("ours", tiers, metric): value for metric, value in zip(_AGAIN, row, strict=True)}
    return values
