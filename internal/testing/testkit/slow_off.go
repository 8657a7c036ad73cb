//go:build !slow

package testkit

// Slow reports whether tests of many rounds run all of them. Without the tag they run fewer, so
// that whoever changes a line need not wait for minutes.
const Slow = false
