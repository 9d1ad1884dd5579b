"""Windows: which 200 consecutive requests of a trace are frozen, and what they look like."""
