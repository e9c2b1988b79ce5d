"""What `ensue demo` shows, and the generated data it shows it on."""
