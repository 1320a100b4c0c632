"""How a process starts, lives and stops, alone or with others."""
