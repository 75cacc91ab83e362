"""Problems are put to theories."""
