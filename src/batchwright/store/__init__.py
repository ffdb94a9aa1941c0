"""What is kept between collecting and learning."""
