"""`python -m hanse.cli` is `hanse`."""

from hanse.cli.main import main

main()
