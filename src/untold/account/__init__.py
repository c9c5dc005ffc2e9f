"""The account of a translation: which source words were told, which target words are explained."""
