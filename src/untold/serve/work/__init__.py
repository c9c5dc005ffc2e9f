"""Does the work of requests in one thread: models, a queue, batches and streams."""
