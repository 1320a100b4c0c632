"""The gateway: serves the clients of RocketMQ 5, unmodified, from ArianeMQ brokers."""
