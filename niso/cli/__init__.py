"""The `niso` command: one module a command, named by its words.

Each has a dataclass `Options`, a `niso.cli.options.Command`; `run`, whose options depend on its first argument, has a
`main`.
"""
