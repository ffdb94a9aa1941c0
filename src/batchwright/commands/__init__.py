"""The commands of `batchwright`: each reads its words, calls the library, prints."""
