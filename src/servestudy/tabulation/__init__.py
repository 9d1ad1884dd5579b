"""Tables of the studies, one module each."""
