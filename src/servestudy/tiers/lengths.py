"""Prompt and output lengths: the study's Zipf sampler, and fixed lengths."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ZipfLengths:
    """Total tokens between `least` and `most`, right-skewed; a third of them output (prompt : output = 2 : 1).

    The method of Gray et al. (SIGMOD 1994) as the simulator of the study has it: `theta` above 1 and the zeta sum over
    n - 1 terms are its own. Prompt and output are truncated each, so their sum may fall one short of the total.
    """

    theta: float = 1.2
    least: int = 64
    most: int = 512
    prompt_to_output: float = 2.0

    def totals(self, uniform: np.ndarray) -> np.ndarray:
        """Total tokens from draws in [0, 1), any shape."""
        n = self.most - self.least + 1
        zeta = sum(i**-self.theta for i in range(1, n))
        alpha = 1 / (1 - self.theta)
        eta = (1 - (2 / n) ** (1 - self.theta)) / (1 - 1 / (zeta + 1e-8))
        ranks = np.floor(n * (eta * uniform - eta + 1) ** alpha).astype(np.int64)
        first = uniform * zeta < 1
        second = ~first & (uniform * zeta < 1 + 0.5**self.theta)
        return self.least + np.where(first, 0, np.where(second, 1, ranks))

    def split(self, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prompt tokens and output tokens from draws in [0, 1)."""
        totals = self.totals(uniform)
        output = totals / (1 + self.prompt_to_output)
        return (totals - output).astype(np.int64), output.astype(np.int64)


@dataclass(frozen=True)
class FixedLengths:
    """The same lengths for every request."""

    prompt_tokens: int = 512
    output_tokens: int = 128

    def split(self, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prompt tokens and output tokens, one each a draw; the draws are not used."""
        return np.full(len(uniform), self.prompt_tokens), np.full(len(uniform), self.output_tokens)
