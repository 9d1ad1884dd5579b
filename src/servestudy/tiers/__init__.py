"""The multi-tier study: workload, dispatch, headroom, migration, autoscaling and the systems compared."""
