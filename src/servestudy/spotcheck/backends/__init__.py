"""Serving engines, each behind one adapter: the only files that know an engine's own names and versions."""
