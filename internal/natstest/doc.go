// Package natstest runs real NATS servers in tests: one, or a cluster, within
// the test's own process, and the network between them, which a test can
// break. What it starts ends with the test, goroutines included.
//
// Helpers that take a [testing.TB] fail the test when something cannot be
// started, so call them on the goroutine of the test.
package natstest
