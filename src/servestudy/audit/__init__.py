"""The audit of the published model: each of its known defects is a switch with named arms."""
