"""From ``@pytest.mark.quant(...)`` to a check: keys, their values, several marks as one, lists, defaults."""
