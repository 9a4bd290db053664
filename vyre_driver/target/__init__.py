"""What programs are compiled for: a device's profile, and how a dispatch is configured."""
