"""The timer topic: records that are due at any time, and the files that RocketMQ keeps for it."""
