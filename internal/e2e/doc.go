// Package e2e holds tests of the whole: a client and a server that talk to each other, over HTTP on
// loopback, as event streams, in process, and across several processes. It has no code of its own.
//
// What was said in each kind of flow is kept under testdata; see package wiretest for how to read
// and rewrite it. Where a test guards against a defect that was found in another implementation,
// its comment says which.
package e2e
