"""What everything else stands on: errors, options, files, processes, progress bars, the guarded vision imports."""
