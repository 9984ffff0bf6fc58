"""The embedded demo: a mock cluster, clients that behave and clients that do not.

What is real: librdkafka's mock cluster, librdkafka's producers and consumer with their own
statistics, every TCP connection, and the agent, which knows nothing of the demo.
What is staged: four clients that do on bare sockets what takes a real one minutes or an accident
(`staged`), and the front before a broker that closes and resets (`front`), because the mock
cluster cannot be told to.
"""
