"""The experiments that come with doxascope, a folder each: settings, what is asked, samples, and the page."""
