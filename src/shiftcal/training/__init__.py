"""The one engine that trains every method: devices, processes, optimisers, checkpoints and history."""
