"""Many threads and forked processes on one learner."""
