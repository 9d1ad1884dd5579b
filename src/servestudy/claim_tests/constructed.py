"""Claims about rules, tested on a few made requests, and claims that nothing here can test."""

from servestudy.claim_tests.evidence import Evidence, Finding, NotEvaluatedError

PROMPT_TOKENS, OUTPUT_TOKENS = 100, 50


def kv_limit(evidence: Evidence, schedulers: list[str]) -> Finding:
    """Schedulers under which prompts of three requests run together though the KV limit holds two.

    Holds if there are such schedulers, as the study's note has it.
    """
    from servestudy.engine.fixed_step import run
    from servestudy.schedulers.protocol import ReplicaLimits
    from servestudy.schedulers.registry import make_scheduler

    limits = ReplicaLimits(max_kv_tokens=2 * PROMPT_TOKENS + OUTPUT_TOKENS)
    past = []
    for name in schedulers:
        outcome = run(_requests([0.0] * 3, [100.0] * 3), [OUTPUT_TOKENS] * 3, make_scheduler(name), limits)
        if len(set(outcome.first_token_step.tolist())) == 1:
            past.append(name)
    return Finding({"past_the_limit": len(past)}, past, f"{len(schedulers)} schedulers tried")


def reads_deadline(evidence: Evidence, scheduler: str) -> Finding:
    """Whether completion times change with the deadlines of two requests and nothing else."""
    from servestudy.engine.fixed_step import run
    from servestudy.schedulers.protocol import ReplicaLimits
    from servestudy.schedulers.registry import make_scheduler

    limits = ReplicaLimits(max_num_seqs=1)
    times = []
    for deadlines_s in ([5.0, 50.0], [50.0, 5.0]):
        outcome = run(_requests([0.0, 0.0], deadlines_s), [OUTPUT_TOKENS] * 2, make_scheduler(scheduler), limits)
        times.append(sorted(zip(outcome.completed_ids.tolist(), outcome.completion_step.tolist(), strict=True)))
    reads = times[0] != times[1]
    return Finding({"reads_deadline": int(reads)}, not reads)


def metric_exists(evidence: Evidence, metric: str) -> Finding:
    """Whether a metric is among the analysed ones."""
    exists = metric in set(evidence.table("ranking")["metric"])
    return Finding({"analysed": int(exists)}, exists)


def not_built(evidence: Evidence, analysis: str) -> Finding:
    """For a claim whose analysis is not part of this version."""
    raise NotEvaluatedError(f"needs {analysis}, which this version does not have")


def documents_only(evidence: Evidence, why: str) -> Finding:
    """For a claim about what documents say; no run can decide it."""
    raise NotEvaluatedError(why)


def _requests(arrivals_s: list[float], deadlines_s: list[float]) -> list:
    from servestudy.schedulers.protocol import Request

    pairs = enumerate(zip(arrivals_s, deadlines_s, strict=True))
    return [
        Request(number, arrival_s, PROMPT_TOKENS, OUTPUT_TOKENS, deadline_s, 1.0, "made")
        for number, (arrival_s, deadline_s) in pairs
    ]


TESTS = (kv_limit, reads_deadline, metric_exists, not_built, documents_only)
