"""What users touch: the two scikit-learn faces, models of other makes, the command line."""
