"""What tests, benchmarks and planted faults share."""
