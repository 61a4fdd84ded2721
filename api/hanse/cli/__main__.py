"""`python -m hanse.cli`: the command where its script is not on the path."""

from hanse.cli.main import main

main()
