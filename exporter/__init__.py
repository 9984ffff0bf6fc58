"""brokerwire: which TCP connections a Kafka client holds, what each is for, which are waste."""

__version__ = "0.1.0"
