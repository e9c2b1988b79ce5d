"""The first IR: what is asked. Nodes, conditions and the frozen `Query` around them."""
