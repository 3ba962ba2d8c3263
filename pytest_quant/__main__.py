"""``python -m pytest_quant`` is the command ``pytest-quant`` for systems without its script on the path."""

from pytest_quant.cli import main

main()
