"""Where the time of a training step goes, and which settings make it shorter: measured, stage by stage."""
