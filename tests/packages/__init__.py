"""The packages as users get them: built, checked, and installed into fresh environments."""
