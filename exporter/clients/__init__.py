"""The clients' own metrics: Java pages, Jolokia, librdkafka's statistics. Text in, readings out."""
