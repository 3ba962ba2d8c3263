"""What several tests share: projects, models, histories and servers that they work on, and ways to run pytest."""
