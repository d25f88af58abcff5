"""What every room needs and no model: errors, text, files, the cache, settings, documents, parallel tasks."""
