"""The protocol of RocketMQ 5 clients, ``apache.rocketmq.v2``, on the wire."""
