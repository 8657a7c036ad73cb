//go:build slow

package testkit

// Slow reports whether tests of many rounds run all of them.
const Slow = true
