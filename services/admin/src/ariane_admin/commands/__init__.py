"""The rooms of the house: one module a noun or verb."""
