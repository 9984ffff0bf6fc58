"""The metrics page: catalogue, labels and families, exposed by prometheus-client."""
