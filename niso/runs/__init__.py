"""Runs: trained, resumed and evaluated in folders, alone or several at a time, recorded and compared."""
