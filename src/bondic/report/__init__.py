"""Views over results: terminal tables, progress bars, pages, exports. They count and draw; they prove nothing."""
