"""`python -m niso`: the `niso` command where its script is not on the path."""

from niso.cli.main import main

if __name__ == "__main__":
    main()
