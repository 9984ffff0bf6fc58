"""The commands of `brokerwire-rollups`, a module each."""
