//go:build !redis

package redisstore_test

// runAsReplica reports that the test binary is none of the replicas, which use Redis.
func runAsReplica() bool { return false }
