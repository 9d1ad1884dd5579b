"""Schedulers: the protocol, the registry, and one module a scheduler."""
