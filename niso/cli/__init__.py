"""The `niso` command: one module a command, named by its words.

Each has a dataclass `Options`; calling one does the work and gives the exit status, if not 0. It raises `NisoError`, in
one line, for anything wrong with the call or its input.
"""
