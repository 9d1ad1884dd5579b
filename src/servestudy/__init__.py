"""servestudy: reproducible artifact and audit of two published studies of LLM-serving schedulers."""

__version__ = "0.1.0"
