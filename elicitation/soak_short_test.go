//go:build !soak

package elicitation_test

const soakRounds = 3000
