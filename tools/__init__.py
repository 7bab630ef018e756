"""Programs that measure the dashboard itself: how fast it imports, analyses and answers, and how much it stores."""
