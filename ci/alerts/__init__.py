"""What happens on main, told to whom it concerns: found, grouped, routed, composed, delivered."""
