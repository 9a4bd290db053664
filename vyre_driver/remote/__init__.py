"""A store of entries and tuning records that machines share; imported only where one is asked for (docs/fleet.md)."""
