"""vLLM V1 behind the adapter, optional: the engine of the published study.

Written to the scheduler interface of vLLM 0.32, which vLLM calls non-public; no committed measurement is made with it.
Both arms use one subclass of its scheduler: FCFS on stock vLLM would have asynchronous scheduling, which a subclass
loses, and the difference would pass for one of schedulers.
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
CPU_BLOCK_TOKENS = 32
"""vLLM's attention on a CPU refuses smaller blocks."""
LONGEST_TOKENS = 32_768


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
        def schedule(self, *args, **kwargs):
            running, waiting = list(self.running), list(self.waiting)
            by_id = {number_of(r.request_id): r for r in (*running, *waiting)}
            order = adapter.order([*running, *waiting], self)
            held = set(held_decodes(order, self.max_num_scheduled_tokens, adapter.prefill_left(by_id)))
            seats = self.max_num_running_reqs, self.max_num_active_reqs
            self.waiting.clear()
            listed = {c.request_id for c in order.new}
            self.waiting.extend(by_id[c.request_id] for c in order.new)
            self.waiting.extend(r for r in waiting if number_of(r.request_id) not in listed)
            serving = [c.request_id for c in order._replace(new=()).listed()]
            self.running = [by_id[request_id] for request_id in serving if request_id not in held]
            self.max_num_running_reqs, self.max_num_active_reqs = (most - len(held) for most in seats)
            try:
                output = super().schedule(*args, **kwargs)
            finally:
                self.max_num_running_reqs, self.max_num_active_reqs = seats
                self.running += [by_id[request_id] for request_id in held]
            if held and not output.total_num_scheduled_tokens:
                held, output = set(), super().schedule(*args, **kwargs)
            adapter.note(output, held, len(running), len(waiting), self)
            return output

    return ArmScheduler


class VllmEngine:
    """One vLLM engine of a process, with weights that are not loaded. Its KV capacity is fixed when it is made."""

    def __init__(self, preset: Preset, device: str, kv_tokens: int):
        os.environ.update(SETTINGS | (CPU_SETTINGS if device == "cpu" else {}))
        self.preset, self.kv_tokens, self.busy_s = preset, kv_tokens, 0.0
        self.block_tokens = CPU_BLOCK_TOKENS if device == "cpu" else BLOCK_TOKENS
        scheduler = scheduler_class(self)
        import vllm

        self.name = f"vLLM {vllm.__version__}, V1 engine"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(model_config(preset)), encoding="utf-8")
            self._engine = self._start(folder, scheduler)

    def _start(self, folder: str, scheduler: type):
        """vLLM's engine with the model that the folder's config.json describes."""
        from vllm.v1.engine.llm_engine import LLMEngine

        return LLMEngine.from_engine_args(self._engine_args(folder, scheduler))

    def _engine_args(self, folder: str, scheduler: type):
        from vllm.engine.arg_utils import EngineArgs

        return EngineArgs(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            enable_prefix_caching=False,
            async_scheduling=False,
            max_model_len=min(LONGEST_TOKENS, self.kv_tokens - self.block_tokens),  # vLLM keeps a block for itself
            max_num_batched_tokens=self.preset.budget,
            max_num_seqs=self.preset.max_num_seqs,
            num_gpu_blocks_override=self.kv_tokens // self.block_tokens,
            block_size=self.block_tokens,
            dtype=self.preset.dtype,
            seed=SEED,
            scheduler_cls=scheduler,
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
        self._step: Step | None = None

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
        )
        self._engine.add_request(str(job.request_id), {"prompt_token_ids": list(job.prompt)}, params)

    def step(self) -> Step | None:
        if not self._engine.has_unfinished_requests():
            return None
        start_s = self.clock.now_s()
        self._now_s = self.step_mean.now_s(start_s)
        outputs = self._engine.step()
        if self._step is None:
            raise RuntimeError(f"{self.name} schedules with another scheduler than ours")
        self.clock.step_took(self._step.tokens)
        end_s = self.clock.now_s()
        self.step_mean.add(end_s - start_s)
        made = tuple(number_of(output.request_id) for output in outputs if output.outputs[0].token_ids)
        for request_id in made:
            self._last_token_s[request_id] = self.step_mean.now_s(end_s)
        finished = tuple(number_of(output.request_id) for output in outputs if output.finished)
        return self._step._replace(token_ids=made, finished=finished)

    def end(self) -> None:
        self._engine.abort_request([str(request_id) for request_id in self._jobs])

    # What the scheduler asks

    def order(self, requests: list, scheduler) -> Order:
        """The arm's order of vLLM's requests, with those of the waiting ones that may enter."""
        taken, free = self._blocks(scheduler)
        running = {r.request_id for r in scheduler.running}
        candidates = [self._candidate(r, r.request_id in running) for r in requests]
        order = self.arm.decide(candidates, self._now_s, self.step_mean.mean_s, taken / (taken + free))
        return admissible(order, self.preset.max_num_seqs - len(running), free, self.block_tokens)

    def _blocks(self, scheduler) -> tuple[int, int]:
        """KV blocks in use, vLLM's own among them, and free ones."""
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return self.kv_tokens // self.block_tokens - free, free

    def _candidate(self, request, is_running: bool) -> Candidate:
        request_id = number_of(request.request_id)
        job = self._jobs[request_id]
        decodes = request.num_computed_tokens >= max(request.num_prompt_tokens, request.num_tokens - 1)
        state = WAITING if not is_running else DECODING if decodes else PREFILLING
        last_s = self._last_token_s.get(request_id, 0.0)
        return Candidate(request_id, job.arrival_s, request.num_tokens, state, last_s, job.tbt_s)

    def prefill_left(self, by_id: dict) -> Callable[[int], int]:
        """Tokens that a request has yet to compute."""
        return lambda request_id: by_id[request_id].num_tokens - by_id[request_id].num_computed_tokens

    def note(self, output, held: set[int], running: int, waiting: int, scheduler) -> None:
        """What the scheduler did in the step that begins; it has counted the step's tokens as computed already."""
        scheduled = output.num_scheduled_tokens
        requests = [scheduler.requests[name] for name in scheduled]
        decodes = [r for r in requests if r.num_computed_tokens > r.num_prompt_tokens and scheduled[r.request_id] == 1]
        evicted = tuple(map(number_of, output.preempted_req_ids or ()))
        self._step = Step(
            tokens=output.total_num_scheduled_tokens,
            requests=len(scheduled),
            kv_read=sum(r.num_computed_tokens - 1 for r in decodes),
            held=len(held),
            running=running,
            waiting=waiting,
            kv_blocks=self._blocks(scheduler)[0],
            evictions=len(evicted),
            token_ids=(),
            finished=(),
            evicted_ids=evicted,
        )


def number_of(name: str) -> int:
    """Of a request: vLLM adds random characters to the name that it was given."""
    return int(name.partition("-")[0])


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
        "max_position_embeddings": LONGEST_TOKENS,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "torch_dtype": preset.dtype,
    }
