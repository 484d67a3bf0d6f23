"""Views over results: terminal tables, progress bars, pages. They compute nothing."""
