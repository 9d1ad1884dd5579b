"""Engine models."""
