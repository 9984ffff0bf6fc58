"""The agent's own alerts: states, queue and delivery to Alertmanager."""
