"""Whether a program means something: the rules of the IR and of a device, each with the place that breaks it."""
