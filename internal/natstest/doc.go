// Package natstest runs real NATS servers in the process of a test: one, or a
// cluster. A test can break the network between them ([Wire], [WiredCluster]) and
// falsify what JetStream answers ([Relay]). Everything ends with the test,
// goroutines included.
//
// Helpers that take a [testing.TB] fail the test when something cannot be
// started, so call them on the goroutine of the test.
package natstest
