"""The claims of the paper, and what results of this project say of them."""
