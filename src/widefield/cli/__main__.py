"""`python -m widefield.cli`."""

from . import main

main()
