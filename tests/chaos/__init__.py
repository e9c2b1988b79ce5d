"""A standing proof: random work under random trouble, for as long as one likes (`./dev chaos`)."""
