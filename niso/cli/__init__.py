"""The `niso` command: one file a command."""
