//go:build soak

package elicitation_test

const soakRounds = 100_000
