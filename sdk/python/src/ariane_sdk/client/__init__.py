"""What every client has: a session, its attachment to brokers, telemetry."""
