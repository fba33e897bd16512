"""What an evaluation shows in the report alone: partial dependence, texts, and the errors of a regression."""
