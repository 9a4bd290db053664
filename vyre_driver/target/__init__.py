"""The target of a compilation: a device's profile, and the configuration of a dispatch."""
