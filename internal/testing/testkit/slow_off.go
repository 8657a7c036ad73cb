//go:build !slow

package testkit

// Slow reports whether tests of many rounds run all of them; without the tag they run fewer, to be
// fast.
const Slow = false
