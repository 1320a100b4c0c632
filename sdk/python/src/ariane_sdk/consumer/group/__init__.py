"""Who is in the group, and which queues that gives to whom."""
