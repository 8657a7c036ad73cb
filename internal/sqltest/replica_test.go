package sqltest_test

// runAsReplica is the test binary as a replica in the tests on PostgreSQL.
func runAsReplica() bool { return replica != nil && replica() }

// replica is set where the tests on PostgreSQL are built.
var replica func() bool
