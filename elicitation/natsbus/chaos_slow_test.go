//go:build slow && !soak

package natsbus_test

// chaosRounds is how many rounds of TestChaos run: the death of an owner and that of the
// leader of the directory.
const chaosRounds = 2
