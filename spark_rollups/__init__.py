"""Rollups of a whole fleet's journals on Spark. It never imports `exporter`, nor the other way."""
