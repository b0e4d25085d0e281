"""The mathematics of the methods as pure tensor functions: no module, device, configuration or hidden randomness."""
