"""Attention over a packed batch, one sequence at a time, for transformers' continuous batching.

The attention that comes with it builds one dense mask of all queries by all keys of the batch, so that throughput falls
as the batch grows: a comparison of schedulers on it measures the mask. This one is causal from the bottom right: query
i of a sequence with n_q queries and n_k keys sees keys 0 to n_k - n_q + i. On CUDA it is FlashAttention-2 as torch
itself has it; elsewhere a loop over the sequences.

Three forms of the call, told apart by their arguments: the function updates the cache itself (transformers to 5.18);
the update resolves arguments that are one a kind of layer (5.19); the model has updated the cache already (5.24).
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

LARGEST_ERROR = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
"""Of the self-test, in the type that attention computes in."""


def packed_attention(q, k, v, starts_q, starts_k, longest_q: int, longest_k: int, scale: float):
    """Attention of packed sequences: q [tokens, heads, dim], k and v [keys, KV heads, dim]; result like q.

    `starts_q` and `starts_k` are cumulative lengths from 0 on, int32, one more than sequences.
    """
    if q.is_cuda:
        return torch.ops.aten._flash_attention_forward(
            q.contiguous(),
            k.contiguous(),
            v.contiguous(),
            starts_q.int(),
            starts_k.int(),
            longest_q,
            longest_k,
            0.0,
            True,
            False,
            scale=scale,
        )[0]
    out = torch.empty_like(q)
    ends_q, ends_k = starts_q.tolist(), starts_k.tolist()
    for number in range(len(ends_q) - 1):
        a, b = ends_q[number], ends_q[number + 1]
        c, d = ends_k[number], ends_k[number + 1]
        if a == b:
            continue
        n_q, n_k = b - a, d - c
        mask = None if n_q == 1 else torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril(n_k - n_q)
        out[a:b] = scaled_dot_product_attention(
            q[a:b].transpose(0, 1)[None],
            k[c:d].transpose(0, 1)[None],
            v[c:d].transpose(0, 1)[None],
            attn_mask=mask,
            scale=scale,
            enable_gqa=True,
        )[0].transpose(0, 1)
    return out


def attention_forward(module, query, key, value, attention_mask=None, scaling=None, **kwargs):
    """What transformers calls for each layer; query [1, heads, tokens, dim], result [1, tokens, heads, dim].

    Raises RuntimeError outside continuous batching.
    """
    if "cu_seq_lens_k" not in kwargs:
        raise RuntimeError("attention over packed sequences works in continuous batching only")
    cache = kwargs.pop("cache", None)
    if cache is not None:
        key, value = _updated(cache, key, value, module.layer_idx, kwargs)
    elif key.dim() == 4:
        key, value = key[0].transpose(0, 1), value[0].transpose(0, 1)
    starts_q, starts_k = kwargs["cu_seq_lens_q"], kwargs["cu_seq_lens_k"]
    longest_q = kwargs.get("max_seqlen_q", kwargs.get("max_length_q"))
    longest_k = kwargs.get("max_seqlen_k", kwargs.get("max_length_k"))
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    out = packed_attention(
        query[0].transpose(0, 1), key, value, starts_q, starts_k, int(longest_q), int(longest_k), scale
    )
    return out[None], None


def _updated(cache, key, value, layer: int, kwargs: dict):
    """Keys and values of the whole batch with their past, [keys, KV heads, dim]; writes the new ones into the cache."""
    if "read_index" in kwargs and not isinstance(kwargs["cu_seq_lens_k"], dict):
        return cache.update(
            key_states=key,
            value_states=value,
            layer_idx=layer,
            read_index=kwargs["read_index"],
            write_index=kwargs["write_index"],
        )
    key, value = cache.update(key, value, layer, kwargs=kwargs)
    return key[0].transpose(0, 1), value[0].transpose(0, 1)


def self_test(device: str, dtype: torch.dtype) -> float:
    """Largest error of a packed batch with a decode, a fresh prefill and a chunk of one, against plain softmax in fp32.

    Raises RuntimeError if it is too large; the chunk is the point, since a kernel that is causal from the top left
    passes the other two.
    """
    generator = torch.Generator().manual_seed(0)
    lengths_q, lengths_k, heads, kv_heads, dim = (1, 5, 7), (9, 5, 20), 4, 2, 64

    def random(tokens: int, n_heads: int):
        return torch.randn(tokens, n_heads, dim, generator=generator).to(device, dtype)

    q, k, v = random(sum(lengths_q), heads), random(sum(lengths_k), kv_heads), random(sum(lengths_k), kv_heads)
    starts_q, starts_k = (
        torch.tensor([0, *lengths]).cumsum(0).to(device, torch.int32) for lengths in (lengths_q, lengths_k)
    )
    found = packed_attention(q, k, v, starts_q, starts_k, max(lengths_q), max(lengths_k), dim**-0.5)
    error = 0.0
    for number in range(len(lengths_q)):
        a, b, c, d = (int(starts[number + end]) for starts in (starts_q, starts_k) for end in (0, 1))
        keys, values = (x[c:d].float().repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[a:b].float(), keys) * dim**-0.5
        visible = torch.ones(b - a, d - c, dtype=torch.bool, device=device).tril((d - c) - (b - a))
        weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
        expected = torch.einsum("hqk,khd->qhd", weights, values)
        error = max(error, float((found[a:b].float() - expected).abs().max()))
    if error > LARGEST_ERROR[dtype]:
        raise RuntimeError(f"attention over packed sequences is off by {error:.2g} on {device} in {dtype}")
    return error
