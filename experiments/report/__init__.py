"""What people look at: pages, terminal tables, JSON, figures."""
