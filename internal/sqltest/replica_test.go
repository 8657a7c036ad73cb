//go:build !postgres

package sqltest_test

// runAsReplica reports that the test binary is none of the replicas, which use PostgreSQL.
func runAsReplica() bool { return false }
