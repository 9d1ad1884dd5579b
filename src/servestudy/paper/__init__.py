"""The paper: its values, computed from the tables of a run, one module a theme; and the typesetting."""
