"""The outbox: messages that wait in the application's database until they are sent."""
