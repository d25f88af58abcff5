"""What this machine can do: its libraries, devices, ways of reading, models and folders, and what is missing."""
