"""The release of a run: its tables, figures and claims, described and hashed, in one folder to pass on."""
