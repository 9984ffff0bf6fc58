"""The journal: records of each interval, to a file or to Kafka."""
