"""The paper's laboratory: systems, corpora, tables, figures and claims. Nothing else imports it."""
