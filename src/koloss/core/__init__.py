"""What every other package stands on: arrays, linear algebra, devices, random numbers, plain data, files and text."""
