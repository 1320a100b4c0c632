"""Messages that wait to be sent: rows, each for one queue, and the accumulator of each broker."""
