"""From causes to alerts, end to end: one package, for the scene is made once for all of it."""
