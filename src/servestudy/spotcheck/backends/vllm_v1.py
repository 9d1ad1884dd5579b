"""vLLM V1 behind the adapter, optional: the engine of the published study.

Written to the scheduler interface of vLLM 0.32 and 0.33, which vLLM calls non-public; no committed measurement is made
with it. Both arms use one subclass of its scheduler: FCFS on stock vLLM would have asynchronous scheduling, which a
subclass loses, and the difference would pass for one of schedulers.
"""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from servestudy.errors import UserError
from servestudy.spotcheck.clock import Clock, RealClock
from servestudy.spotcheck.policy import DECODING, PREFILLING, WAITING, Arm, Candidate, Order, admissible
from servestudy.spotcheck.presets import BLOCK_TOKENS, SEED, Preset
from servestudy.spotcheck.replay import Job, Step

SETTINGS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
CPU_SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1"}


def held_decodes(order: Order, budget: int, prefill_left: Callable[[int], int]) -> list[int]:
    """Ids of the decodes to hold: vLLM serves all that run before any that waits, so the others must be taken out.

    What started prefills and admissible prompts will take is an estimate, up to the budget.
    """
    wanted = 0 if order.prefill_last else sum(prefill_left(c.request_id) for c in (*order.started, *order.new))
    spare = max(0, budget - len(order.critical) - min(budget, wanted))
    return [candidate.request_id for candidate in order.rest[spare:]]


def scheduler_class(adapter: "VllmEngine") -> type:
    """vLLM's scheduler in the order of the adapter's arm. Raises UserError if vLLM cannot be imported."""
    try:
        from vllm.v1.core.sched.scheduler import Scheduler
    except Exception as error:  # its import fails in many ways, as by a torchvision of another version
        raise UserError(f"vLLM cannot be imported ({type(error).__name__}: {error}); see docs/SPOTCHECK.md") from None

    class ArmScheduler(Scheduler):
        def schedule(self):
            running, waiting = list(self.running), list(self.waiting)
            by_id = {int(r.request_id): r for r in (*running, *waiting)}
            order = adapter.order([*running, *waiting], self)
            held = set(held_decodes(order, self.max_num_scheduled_tokens, adapter.prefill_left(by_id)))
            most = self.max_num_running_reqs
            self.waiting.clear()
            listed = {c.request_id for c in order.new}
            self.waiting.extend(by_id[c.request_id] for c in order.new)
            self.waiting.extend(r for r in waiting if int(r.request_id) not in listed)
            self.running = [by_id[c.request_id] for c in (*order.critical, *order.started, *order.rest)]
            self.running = [r for r in self.running if int(r.request_id) not in held]
            self.max_num_running_reqs = most - len(held)
            try:
                output = super().schedule()
            finally:
                self.max_num_running_reqs = most
                self.running += [by_id[request_id] for request_id in held]
            if held and not output.total_num_scheduled_tokens:
                held, output = set(), super().schedule()
            adapter.note(output, held, len(running), len(waiting))
            return output

    return ArmScheduler


class VllmEngine:
    """One vLLM engine of a process, with weights that are not loaded. Its KV capacity is fixed when it is made."""

    name = "vLLM V1"

    def __init__(self, preset: Preset, device: str, kv_tokens: int):
        os.environ.update(SETTINGS | (CPU_SETTINGS if device == "cpu" else {}))
        self.preset, self.kv_tokens, self.busy_s = preset, kv_tokens, 0.0
        scheduler = scheduler_class(self)
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(model_config(preset)), encoding="utf-8")
            self._engine = LLMEngine.from_engine_args(
                EngineArgs(
                    model=folder,
                    load_format="dummy",
                    skip_tokenizer_init=True,
                    enforce_eager=True,
                    enable_prefix_caching=False,
                    async_scheduling=False,
                    max_num_batched_tokens=preset.budget,
                    max_num_seqs=preset.max_num_seqs,
                    num_gpu_blocks_override=kv_tokens // BLOCK_TOKENS,
                    block_size=BLOCK_TOKENS,
                    dtype=preset.dtype,
                    seed=SEED,
                    scheduler_cls=scheduler,
                )
            )

    def make_clock(self) -> Clock:
        """Real time: on a CPU, too, it computes in several threads."""
        return RealClock()

    def begin(self, arm: Arm, kv_tokens: int, clock: Clock) -> None:
        if kv_tokens != self.kv_tokens:
            raise RuntimeError(f"this vLLM engine has {self.kv_tokens} tokens of KV, not {kv_tokens}; one a process")
        self.arm, self.clock, self.step_mean = arm, clock, arm.step_mean()
        self._jobs: dict[int, Job] = {}
        self._last_token_s: dict[int, float] = {}
        self._now_s = 0.0
        self._noted: tuple = (0, 0, 0, 0, 0)

    def submit(self, job: Job) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._jobs[job.request_id] = job
        params = SamplingParams(
            max_tokens=job.output_tokens,
            ignore_eos=True,
            temperature=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args={"tbt": job.tbt_s},
        )
        self._engine.add_request(str(job.request_id), {"prompt_token_ids": list(job.prompt)}, params)

    def step(self) -> Step | None:
        if not self._engine.has_unfinished_requests():
            return None
        start_s = self.clock.now_s()
        self._now_s = self.step_mean.now_s(start_s)
        outputs = self._engine.step()
        tokens, requests, held, running, waiting = self._noted
        self.clock.step_took(tokens)
        end_s = self.clock.now_s()
        self.step_mean.add(end_s - start_s)
        made = tuple(int(output.request_id) for output in outputs if output.outputs[0].token_ids)
        for request_id in made:
            self._last_token_s[request_id] = self.step_mean.now_s(end_s)
        finished = tuple(int(output.request_id) for output in outputs if output.finished)
        return Step(tokens, requests, 0, held, running, waiting, 0, 0, made, finished)

    def end(self) -> None:
        self._engine.abort_request([str(request_id) for request_id in self._jobs])

    # What the scheduler asks

    def order(self, requests: list, scheduler) -> Order:
        """The arm's order of vLLM's requests, with those of the waiting ones that may enter."""
        pool = scheduler.kv_cache_manager.block_pool
        free, total = pool.get_num_free_blocks(), self.kv_tokens // BLOCK_TOKENS
        running = {r.request_id for r in scheduler.running}
        candidates = [self._candidate(r, r.request_id in running) for r in requests]
        order = self.arm.decide(candidates, self._now_s, self.step_mean.mean_s, 1 - free / total)
        return admissible(order, self.preset.max_num_seqs - len(running), free, BLOCK_TOKENS)

    def _candidate(self, request, is_running: bool) -> Candidate:
        request_id = int(request.request_id)
        job = self._jobs[request_id]
        decodes = request.num_computed_tokens >= request.num_prompt_tokens
        state = WAITING if not is_running else DECODING if decodes else PREFILLING
        last_s = self._last_token_s.get(request_id, 0.0)
        return Candidate(request_id, job.arrival_s, request.num_prompt_tokens, state, last_s, job.tbt_s)

    def prefill_left(self, by_id: dict) -> Callable[[int], int]:
        """Tokens that a request has yet to compute."""
        return lambda request_id: by_id[request_id].num_tokens - by_id[request_id].num_computed_tokens

    def note(self, output, held: set[int], running: int, waiting: int) -> None:
        """What the scheduler did in the step that begins."""
        scheduled = output.num_scheduled_tokens
        self._noted = (output.total_num_scheduled_tokens, len(scheduled), len(held), running, waiting)


def model_config(preset: Preset) -> dict:
    """config.json of the preset's model."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": preset.vocabulary,
        "hidden_size": preset.hidden,
        "intermediate_size": preset.mlp,
        "num_hidden_layers": preset.layers,
        "num_attention_heads": preset.heads,
        "num_key_value_heads": preset.kv_heads,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "torch_dtype": preset.dtype,
    }
