"""The `niso` command: one module a command, named by its words.

Each has a dataclass of its options, and `main`, which takes the arguments after the words and gives the exit status, if
not 0. It raises `NisoError`, in one line, for anything wrong with the call or its input.
"""
