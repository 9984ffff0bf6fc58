"""What somebody should change, and why. Pure."""
