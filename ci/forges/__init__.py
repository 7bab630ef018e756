"""Where pull requests live: GitHub and GitLab, and what is written there once whatever happens meanwhile."""
