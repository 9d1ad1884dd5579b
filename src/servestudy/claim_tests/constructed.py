"""Claims about rules, tested on a few made requests, and claims that nothing here can test."""

from servestudy.claim_tests.evidence import Evidence, Finding, NotEvaluatedError

PROMPT_TOKENS, OUTPUT_TOKENS = 100, 50


def kv_limit(evidence: Evidence, schedulers: list[str]) -> Finding:
    """Schedulers under which prompts of three requests run together though the KV limit holds two.

    Holds if there are such schedulers, as the study's note has it.
    """
    _only_published(evidence)
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
    _only_published(evidence)
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


def same_window_rule(evidence: Evidence, sources: list[str]) -> Finding:
    """Whether the pilot's sampling rule gives the later windows of each source; the note counts those that it does.

    The later windows are those of the rule with the published start rows. The pilot's rule is continued to 40 windows
    or begun anew for 30, with its own seed or with the later one.
    """
    from servestudy.schedulers.registry import CHECKOUT
    from servestudy.traces.registry import SOURCES, load_sources
    from servestudy.windows import sampling

    same, counts = True, []
    for name, source in load_sources(CHECKOUT / SOURCES).items():
        if name not in sources:
            continue
        trace = source.rows, source.skip_rows
        pilot = sampling.stage0_starts(*trace, source.sampling_seed)
        later = set(sampling.extension_starts(*trace, source.sampling_seed, pilot))
        continued = [
            set(sampling.stage0_starts(*trace, seed, count))
            for count in (sampling.EXTENSION_WINDOWS, sampling.STAGE0_WINDOWS + sampling.EXTENSION_WINDOWS)
            for seed in (source.sampling_seed, source.sampling_seed + sampling.EXTENSION_SEED_OFFSET)
        ]
        same &= any(later <= starts for starts in continued)
        counts.append(f"{name} {max(len(later & starts) for starts in continued)} of {len(later)}")
    return Finding({"same_rule": int(same)}, same, f"start rows in common: {', '.join(counts)}")


def prefill_takes_time(evidence: Evidence, schedulers: list[str]) -> Finding:
    """Whether a prompt a hundred times as long delays the first token of a lone request; holds if under all."""
    _only_published(evidence)
    from servestudy.engine.fixed_step import run
    from servestudy.schedulers.registry import make_scheduler

    (short,) = _requests([0.0], [100.0])
    long = short._replace(prompt_tokens=100 * PROMPT_TOKENS)
    delayed = []
    for name in schedulers:
        steps = [run([request], [OUTPUT_TOKENS], make_scheduler(name)).first_token_step[0] for request in (short, long)]
        if steps[1] > steps[0]:
            delayed.append(name)
    holds = len(delayed) == len(schedulers)
    return Finding({"prefill_modelled": int(holds)}, holds, f"{len(delayed)} of {len(schedulers)} schedulers delayed")


def telemetry_counters(evidence: Evidence) -> Finding:
    """What two counters count, by runs in which one thing happens and nothing else."""
    _only_published(evidence)
    from servestudy.engine.fixed_step import run
    from servestudy.schedulers.protocol import Action, Scheduler

    class Script(Scheduler):
        """Decides as the list says, then admits all that wait."""

        def __init__(self, *actions: Action):
            self.actions = actions

        def decide(self, view):
            if view.step < len(self.actions):
                return self.actions[view.step]
            return Action(admit=[request.request_id for request in view.waiting])

    requests = _requests([0.0, 0.0], [100.0, 100.0])

    def count(*actions: Action) -> tuple[int, int]:
        telemetry = run(requests, [OUTPUT_TOKENS] * 2, Script(*actions)).telemetry
        return telemetry.admission_control_activations, telemetry.preemption_or_reorder_events

    values = {
        "admitted_not_run": count(Action(admit=[0, 1], hold=frozenset([1])))[0],
        "reordered": count(Action(admit=[1, 0]))[1],
    }
    waiting = count(Action(admit=[0]))[0]
    evicted = count(Action(admit=[0]), Action(preempt=[0]))[1]
    note = f"a request that waits while a slot is free counts {waiting}, an eviction counts {evicted}"
    return Finding(values, all(values.values()), note)


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


def _only_published(evidence: Evidence) -> None:
    if evidence.model != "published":
        raise NotEvaluatedError("the made requests run in the published model only")


def _requests(arrivals_s: list[float], deadlines_s: list[float]) -> list:
    from servestudy.schedulers.protocol import Request

    pairs = enumerate(zip(arrivals_s, deadlines_s, strict=True))
    return [
        Request(number, arrival_s, PROMPT_TOKENS, OUTPUT_TOKENS, deadline_s, 1.0, "made")
        for number, (arrival_s, deadline_s) in pairs
    ]


TESTS = (
    kv_limit,
    reads_deadline,
    same_window_rule,
    prefill_takes_time,
    telemetry_counters,
    metric_exists,
    not_built,
    documents_only,
)
