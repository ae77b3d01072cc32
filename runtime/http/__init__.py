"""Recorders of requests by HTTP: clients that wait for answers, and servers that give them."""
