//go:build redis && soak

package redisstore_test

const chaosFlows = 1000
