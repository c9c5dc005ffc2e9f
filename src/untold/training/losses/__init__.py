"""What training minimises: one file for each loss, and the objective that adds them up."""
