"""What runs: the jobs that bring the tables up to date."""
