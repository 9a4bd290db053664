"""What drivers do: counted, told to listeners, and given to OpenTelemetry and Prometheus."""
