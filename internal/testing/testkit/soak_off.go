//go:build !soak

package testkit

// Soak reports whether soaks run at full length and size.
const Soak = false
