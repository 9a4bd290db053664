# Makes `cimport vyre_driver._fast` work.
