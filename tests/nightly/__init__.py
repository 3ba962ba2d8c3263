"""What installs packages, draws at random, kills, or takes minutes."""
