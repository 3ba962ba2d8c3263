"""``python -m pytest_quant`` is the command ``pytest-quant``, where its script is not on the path."""

from pytest_quant.cli import main

main()
