"""Models on disk: directories, the mean of several, and what they hold."""
