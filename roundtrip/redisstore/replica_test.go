//go:build !redis

package redisstore_test

// runAsReplica is false: replicas use Redis, and not this binary.
func runAsReplica() bool { return false }
