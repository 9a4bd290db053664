"""The text of a kernel's function: found, held against its code, parsed; its parameters, and what it takes from outside."""
