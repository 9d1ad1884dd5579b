"""The spot-check: two schedulers on a real serving engine, and the simulators against it."""
