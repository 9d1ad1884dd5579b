"""The 13 schedulers of the published portability study, quirks and all."""
