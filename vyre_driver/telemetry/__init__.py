"""Telemetry of drivers: counts, listeners, OpenTelemetry and Prometheus."""
