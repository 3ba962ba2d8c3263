"""How often verdicts are wrong, and how often real slow-downs are caught: ours and those of other tools."""
