"""The pool agent: places whole gangs on the nodes of one cluster, starts, stops and watches them."""
