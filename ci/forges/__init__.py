"""GitHub and GitLab: comments, check runs and replies of pull requests, written exactly once."""
