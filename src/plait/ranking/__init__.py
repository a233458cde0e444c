"""Pure arithmetic on rankings. Knows nothing of stores, text or clocks."""
