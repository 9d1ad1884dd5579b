"""transformers' continuous batching behind the adapter; the one file that knows its versions (5.17 to 5.24).

The engine's own scheduling, chunking, KV accounting and eviction run; of its scheduler only the order of candidates,
and which waiting ones may enter, is replaced. Both arms use the same class.
"""

import inspect
import logging
from contextlib import suppress

import torch
import transformers
from transformers import AttentionInterface, GenerationConfig, Qwen2Config, Qwen2ForCausalLM
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching import input_outputs
from transformers.generation.continuous_batching.requests import RequestState, RequestStatus
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING, FIFOScheduler

from servestudy.spotcheck.attention import attention_forward
from servestudy.spotcheck.clock import Clock, ProcessorClock, RealClock
from servestudy.spotcheck.policy import DECODING, PREFILLING, WAITING, Arm, Candidate, admissible
from servestudy.spotcheck.presets import BLOCK_TOKENS, SEED, Preset
from servestudy.spotcheck.replay import Job, Step

ATTENTION = "paged|eager"
"""The entry that is replaced by ours: newer versions refuse names that they do not know."""
SCHEDULER = "servestudy"
STATES = {RequestStatus.PENDING: WAITING, RequestStatus.PREFILLING: PREFILLING, RequestStatus.DECODING: DECODING}

logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)


class ArmScheduler(FIFOScheduler):
    """The engine's scheduler with the candidates in the order of an arm. `engine` is set when a replay begins."""

    engine: "TransformersEngine"

    def _process_candidates(self, candidates, *args, **kwargs):
        engine = self.engine
        views = [engine.candidate(state) for state in candidates]
        order = engine.arm.decide(views, engine.now_s, engine.step_mean.mean_s, self.blocks_taken / engine.kv_blocks)
        slots = engine.max_num_seqs - len(self.active_requests)
        order = admissible(order, slots, engine.kv_blocks - self.blocks_taken, BLOCK_TOKENS)
        by_id = {state.request_id: state for state in candidates}
        result = super()._process_candidates([by_id[str(c.request_id)] for c in order.listed()], *args, **kwargs)
        engine.scheduled = [(int(future.state.request_id), future.has_new_token) for future in result[0]]
        served = {request_id for request_id, _ in engine.scheduled}
        starved = {int(state.request_id) for state, _ in getattr(self, "starved_requests", ())}
        decodes = {view.request_id for view in views if view.state == DECODING}
        engine.held = len(decodes - served - starved)
        engine.kv_read = sum(by_id[str(request_id)].current_len() for request_id in decodes & served)
        return result

    @property
    def blocks_taken(self) -> int:
        """KV blocks in use."""
        cache = self.cache
        if hasattr(cache, "compute_free_capacity"):
            return self.engine.kv_blocks - round(cache.compute_free_capacity() * cache.num_blocks)
        return cache.num_blocks - cache.get_num_free_blocks()

    def add_waiting_request(self, state: RequestState) -> None:
        self.engine.note_waiting(int(state.request_id))
        super().add_waiting_request(state)


class TransformersEngine:
    """A randomly initialised model of a preset's shape on a device, served by continuous batching.

    Raises RuntimeError (of torch) if the device lacks memory.
    """

    name = f"transformers {transformers.__version__} continuous batching"
    block_tokens = BLOCK_TOKENS

    def __init__(self, preset: Preset, device: str = "cpu"):
        self.preset, self.device = preset, device
        self.dtype = getattr(torch, preset.dtype)
        self.model = build_model(preset, device, self.dtype)
        self.kv_blocks = 0
        self.max_num_seqs = preset.max_num_seqs
        self.busy_s = 0.0
        self.outputs: dict[int, list[int]] = {}
        use_packed_attention(self.model)

    def make_clock(self) -> Clock:
        """Real time on a GPU; on a CPU, where this thread computes alone, its processor time."""
        return ProcessorClock() if self.device == "cpu" else RealClock()

    def begin(self, arm: Arm, kv_tokens: int, clock: Clock) -> None:
        self.kv_blocks = kv_tokens // BLOCK_TOKENS
        self.arm, self.clock, self.step_mean = arm, clock, arm.step_mean()
        self._jobs: dict[int, Job] = {}
        self._last_token_s: dict[int, float] = {}
        self._queued: set[int] = set()
        self._evicted: list[int] = []
        self._events: list[tuple] = []
        self.scheduled: list[tuple[int, bool]] = []
        self.held, self.kv_read, self.now_s, self.busy_s = 0, 0, 0.0, 0.0
        self.outputs = {}
        SCHEDULER_MAPPING[SCHEDULER] = ArmScheduler
        generation = GenerationConfig(do_sample=False, eos_token_id=-1)
        self._manager = self.model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=self._batching_config()
        )
        self._processor = self._manager.batch_processor = self._manager._create_batch_processor()
        scheduler = self._processor.scheduler
        if type(scheduler) is not ArmScheduler:
            raise RuntimeError(f"{self.name} schedules with {type(scheduler).__name__} instead of ours")
        scheduler.engine = self

    def _batching_config(self) -> ContinuousBatchingConfig:
        known = inspect.signature(ContinuousBatchingConfig).parameters
        wanted = {
            "page_size" if "page_size" in known else "block_size": BLOCK_TOKENS,
            "num_blocks": self.kv_blocks,
            "max_batch_tokens": self.preset.budget,
            "max_requests_per_batch": self.preset.budget,
            "max_blocks_per_request": 0,
            "scheduler_type": SCHEDULER,
            "safety_margin": 0.0,
            "allow_block_sharing": False,
            "use_cuda_graph": False,
            "use_async_batching": False,
            "auto_switch_to_flash": False,
        }
        return ContinuousBatchingConfig(**{name: value for name, value in wanted.items() if name in known})

    def submit(self, job: Job) -> None:
        self._jobs[job.request_id] = job
        self._manager.add_request(
            list(job.prompt),
            request_id=str(job.request_id),
            max_new_tokens=job.output_tokens,
            eos_token_id=-1,
        )

    def step(self) -> Step | None:
        processor, scheduler = self._processor, self._processor.scheduler
        start_s = self.clock.now_s()
        self.now_s = self.step_mean.now_s(start_s)
        self._evicted = []
        if not processor.prepare_next_batch():
            return None
        running, waiting = len(scheduler.active_requests), len(scheduler.waiting_requests)
        tokens = processor.inputs_and_outputs.num_q_tokens
        begun = self._cuda_event()
        processor._generation_step(self.model)
        if begun is not None:
            self._events.append((begun, self._cuda_event()))
        self.clock.step_took(tokens)
        processor.update_batch()
        end_s = self.clock.now_s()
        self.step_mean.add(end_s - start_s)
        made = tuple(request_id for request_id, has_new_token in self.scheduled if has_new_token)
        for request_id in made:
            self._last_token_s[request_id] = self.step_mean.now_s(end_s)
        return Step(
            tokens=tokens,
            requests=len(self.scheduled),
            kv_read=self.kv_read,
            held=self.held,
            running=running,
            waiting=waiting,
            kv_blocks=scheduler.blocks_taken,
            evictions=len(self._evicted),
            token_ids=made,
            finished=self._collect(),
            evicted_ids=tuple(self._evicted),
        )

    def _collect(self) -> tuple[int, ...]:
        finished = []
        queue = self._manager.output_router.output_queue
        while not queue.empty():
            output = queue.get_nowait()
            if output.error:
                raise RuntimeError(f"request {output.request_id} failed in the engine: {output.error}")
            finished.append(int(output.request_id))
            self.outputs[finished[-1]] = list(output.generated_tokens)
        return tuple(finished)

    def _cuda_event(self):
        if self.device == "cpu":
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def end(self) -> None:
        if self._events:
            torch.cuda.synchronize()
            self.busy_s = sum(a.elapsed_time(b) for a, b in self._events) / 1000
        self._manager = self._processor = None
        with suppress(AttributeError):
            del self.model._cached_continuous_batching_manager
        if self.device != "cpu":
            torch.cuda.empty_cache()

    # What the scheduler asks

    def candidate(self, state: RequestState) -> Candidate:
        """A request of the engine as the policy sees it."""
        request_id = int(state.request_id)
        job = self._jobs[request_id]
        return Candidate(
            request_id,
            job.arrival_s,
            len(state.initial_tokens),
            STATES[state.status],
            self._last_token_s.get(request_id, 0.0),
            job.tbt_s,
        )

    def note_waiting(self, request_id: int) -> None:
        """A request entered the queue: for the second time if it was evicted."""
        if request_id in self._queued:
            self._evicted.append(request_id)
        self._queued.add(request_id)


def build_model(preset: Preset, device: str, dtype: torch.dtype, attention: str = ATTENTION) -> Qwen2ForCausalLM:
    """The preset's model with random weights from a fixed seed, made on the device in its final type."""
    config = Qwen2Config(
        vocab_size=preset.vocabulary,
        hidden_size=preset.hidden,
        intermediate_size=preset.mlp,
        num_hidden_layers=preset.layers,
        num_attention_heads=preset.heads,
        num_key_value_heads=preset.kv_heads,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        use_sliding_window=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    config._attn_implementation = attention
    torch.manual_seed(SEED)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = Qwen2ForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)


def use_packed_attention(model) -> None:
    """Make the engine use attention over packed sequences, and build no dense mask for it."""
    AttentionInterface.register(ATTENTION, attention_forward)
    if hasattr(input_outputs, "attn_mask_is_needed"):
        input_outputs.attn_mask_is_needed = lambda config: False
    model.set_attn_implementation(ATTENTION)
