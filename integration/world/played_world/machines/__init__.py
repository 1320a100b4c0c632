"""What programs run on: machines with clock, disk, loop and threads, and what connects them."""
