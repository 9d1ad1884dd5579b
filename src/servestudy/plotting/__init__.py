"""Figures of the studies, one module each, and their common style."""
