"""What installs packages, draws at random, kills, proves the tools of the tests, or takes minutes."""
