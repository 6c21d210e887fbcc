"""The `niso` command: one module a command, named by its words, with the dataclass of its options and `main`."""
