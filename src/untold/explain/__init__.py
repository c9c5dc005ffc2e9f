"""Shows what of a sentence is told and still untold: values, tables, figures, pages."""
