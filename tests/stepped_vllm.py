"""vLLM's scheduler and KV manager without a model: what a step computes is made up, all else is vLLM's."""

from types import SimpleNamespace

from servestudy.spotcheck.backends.vllm_v1 import VllmEngine
from servestudy.spotcheck.presets import BLOCK_TOKENS


class SteppedVllm(VllmEngine):
    """The adapter over vLLM's scheduler alone. Its blocks are those of a GPU: no attention refuses them."""

    def _start(self, folder, scheduler):
        self.block_tokens = BLOCK_TOKENS
        config = self._engine_args(folder, scheduler).create_engine_config()
        return SchedulerAlone(scheduler, config, self.kv_tokens // BLOCK_TOKENS)


class SchedulerAlone:
    """What the adapter calls of vLLM's engine."""

    def __init__(self, scheduler: type, config, blocks: int):
        import torch
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        spec = FullAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=1, head_size=1, dtype=torch.float32)
        cache = KVCacheConfig(blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
        config.cache_config.num_gpu_blocks = blocks
        self._scheduler = scheduler(config, cache, StructuredOutputManager(config), BLOCK_TOKENS)

    def add_request(self, name: str, prompt: dict, params) -> None:
        from vllm.v1.request import Request

        self._scheduler.add_request(Request(f"{name}-made", prompt["prompt_token_ids"], params, None))

    def has_unfinished_requests(self) -> bool:
        return self._scheduler.has_unfinished_requests()

    def step(self) -> list:
        """One token for each request whose tokens are all computed."""
        from vllm.v1.outputs import ModelRunnerOutput

        scheduled = self._scheduler.schedule(False)
        names = list(scheduled.num_scheduled_tokens)
        requests = [self._scheduler.requests[name] for name in names]
        tokens = [[5] if r.num_computed_tokens >= r.num_tokens else [] for r in requests]
        made = ModelRunnerOutput(names, {name: place for place, name in enumerate(names)}, tokens)
        outputs = self._scheduler.update_from_output(scheduled, made)
        return [
            SimpleNamespace(
                request_id=each.request_id,
                outputs=[SimpleNamespace(token_ids=each.new_token_ids)],
                finished=each.finish_reason is not None,
            )
            for each in (outputs[0].outputs if outputs else ())
        ]

    def abort_request(self, names: list[str]) -> None:
        from vllm.v1.request import RequestStatus

        self._scheduler.finish_requests([f"{name}-made" for name in names], RequestStatus.FINISHED_ABORTED)
