"""Requests to the process of a Manager of :mod:`multiprocessing`: how long they take, and who is waited for in them."""
