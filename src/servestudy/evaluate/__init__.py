"""Anyone's own scheduler in the panel: loading its file, watching it, running it, and its portability report card."""
