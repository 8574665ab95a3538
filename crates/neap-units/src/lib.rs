//! Units of neap: page numbers, sizes and times, and how sizes are written.
