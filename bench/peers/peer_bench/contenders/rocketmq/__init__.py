"""RocketMQ: its brokers, controllers and tools."""
