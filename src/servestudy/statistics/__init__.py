"""Analyses of the cells, one module each."""
