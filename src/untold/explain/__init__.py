"""What of a sentence is told and what is still untold: values, tables, figures, pages."""
