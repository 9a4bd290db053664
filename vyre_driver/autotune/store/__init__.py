"""Storage of tuning records: the records, the file that processes share, and the choice of a record for a driver."""
