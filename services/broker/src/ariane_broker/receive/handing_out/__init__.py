"""Handing messages out: chooses a client's messages; calls wait while there are none."""
