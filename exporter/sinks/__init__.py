"""What brokerwire shows: they format a finished snapshot and decide nothing."""
