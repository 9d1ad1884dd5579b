"""What computes the claims' values from a run: one function a kind of claim, found by name in `registry`."""
