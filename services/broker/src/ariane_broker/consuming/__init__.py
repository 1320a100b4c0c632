"""What clients and operators ask of groups: offsets, locks of queues, the end of a group."""
