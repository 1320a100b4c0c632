"""What requests name, where the kit cannot find it by itself."""
