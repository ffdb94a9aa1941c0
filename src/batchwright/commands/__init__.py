"""The commands of `batchwright`: each parses its arguments, calls the library and prints."""
