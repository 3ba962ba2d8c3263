"""Comments of pull requests on GitHub and GitLab, over HTTP; knows no pytest and no records."""
