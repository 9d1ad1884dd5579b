"""Schedulers of the serving model."""
