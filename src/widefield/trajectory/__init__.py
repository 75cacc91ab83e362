"""What is answered: arrays over time, and what follows from them."""
