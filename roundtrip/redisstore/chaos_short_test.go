//go:build redis && !soak

package redisstore_test

// chaosFlows is how many flows TestChaos has; with the tag soak there are more.
const chaosFlows = 150
