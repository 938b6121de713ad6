"""`engine batch --on ray`: attempts as tasks of a Ray cluster.

Ray is an extra, and only two processes import it: the Ray client, a child of the command, and the cluster's workers.
"""
