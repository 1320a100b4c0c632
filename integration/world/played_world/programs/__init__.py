"""What runs in a world: the services, their clients and operators, and who starts them again."""
