"""Consumer groups: settings, offsets, queue locks."""
