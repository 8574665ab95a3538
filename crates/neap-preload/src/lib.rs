//! The library neap loads into a program: it hands the address space to the engine and leaves one agent thread.
