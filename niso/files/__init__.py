"""Files and folders: written whole, locked, found, and told apart by their content."""
