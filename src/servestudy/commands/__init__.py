"""The subcommands, one module a stage of the workflow.

Each module has `add_commands(command)`, which adds its subcommands, and their functions. These import what they need
when they run, so that `--help` and the start of each job are quick.
"""
