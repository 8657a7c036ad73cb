//go:build soak

package natsbus_test

// chaosRounds is how many rounds of TestChaos run: each trouble twice.
const chaosRounds = 20
