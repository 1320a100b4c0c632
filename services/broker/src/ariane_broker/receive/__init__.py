"""Receiving: members that own no queue get messages for a while and settle them one by one."""
