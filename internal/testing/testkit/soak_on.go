//go:build soak

package testkit

// Soak reports whether soaks run for as long, and with as much, as they are meant to.
const Soak = true
